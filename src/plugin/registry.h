// The registry of plugin creators and the instances made from it.
//
// One a process, under one lock. Built-in creators are in tables of this folder; those of
// libraries and programs are added. An instance holds its creator: what lives cannot be taken out.
#ifndef CARNOT_PLUGIN_REGISTRY_H_
#define CARNOT_PLUGIN_REGISTRY_H_

#include "plugin/fields.h"

// The identity of a plugin. |library| is the file that registered it, "" where the program did or
// it is built in.
typedef struct carnot_plugin_key {
  const char *name, *version, *name_space, *library;
} carnot_plugin_key;

struct carnot_plugin_builtin;

typedef struct carnot_plugin_entry {
  carnot_plugin_creator creator;         // as this version knows it, its own texts
  const carnot_plugin_creator* address;  // as registered
  carnot_plugin_library* library;        // NULL: the program's, or built in
  const struct carnot_plugin_builtin* builtin;
  int live;  // instances
  int made;  // plugins that the program made and has not destroyed
} carnot_plugin_entry;

typedef struct carnot_plugin_instance {
  carnot_plugin plugin;  // as this version knows it
  carnot_plugin* made;   // the author's
  carnot_plugin_entry* entry;
} carnot_plugin_instance;

// The entry; it stays as long as somebody holds it. VERSION_MISMATCH when there are other versions
// only, NOT_FOUND with the nearest names. |key->library| may be NULL.
carnot_status* carnot_registry_find(const carnot_plugin_key* key,
                                    carnot_plugin_entry** out_entry) CARNOT_MUST_USE;
// The creator that a model means: the namespace named, else any that has the name and version.
carnot_plugin_entry* carnot_registry_lookup(const char* name, const char* version,
                                            const char* name_space);
// The nearest registered names with their versions, as a sentence for messages.
void carnot_registry_nearest(const char* name, char* text, size_t size);

// Makes an instance from packed fields; close it again.
carnot_status* carnot_plugin_open(const carnot_plugin_key* key, carnot_strview fields,
                                  carnot_plugin_phase phase,
                                  carnot_plugin_instance** out_instance) CARNOT_MUST_USE;
// A copy with a state of its own.
carnot_status* carnot_plugin_open_clone(const carnot_plugin_instance* from,
                                        carnot_plugin_instance** out_instance) CARNOT_MUST_USE;
void carnot_plugin_close(carnot_plugin_instance* instance);

// |plugin| as this version knows it: functions that its author's version lacks are NULL.
// VERSION_MISMATCH for another interface, INVALID_ARGUMENT names a function that is missing.
carnot_status* carnot_plugin_read(const carnot_plugin* plugin,
                                  carnot_plugin* out_plugin) CARNOT_MUST_USE;

// The entry, held as by one instance; count it back.
carnot_status* carnot_registry_take(const carnot_plugin_key* key,
                                    carnot_plugin_entry** out_entry) CARNOT_MUST_USE;
void carnot_registry_count(carnot_plugin_entry* entry, int live, int made);
// One plugin less that the program made, where the registry made it.
void carnot_registry_drop_made(const carnot_plugin_key* key);

// Adds the creators of a library; on failure none is left. Between the files of this folder.
carnot_status* carnot_registry_add(const carnot_plugin_creator* const* creators, int32_t count,
                                   const char* name_space,
                                   carnot_plugin_library* library) CARNOT_MUST_USE;
// Takes out those of |library|, or |address|.
carnot_status* carnot_registry_remove(const carnot_plugin_library* library,
                                      const carnot_plugin_creator* address) CARNOT_MUST_USE;

// An opened library; library.c owns it.
struct carnot_plugin_library {
  carnot_plugin_library* next;
  char* path;
  void* handle;
  int loads;
};

// The file's name without folders.
const char* carnot_plugin_library_name(const carnot_plugin_library* library);
const char* carnot_plugin_library_path(const carnot_plugin_library* library);
// Loads the library that an engine carries: |name| is what it was called. FAILED_PRECONDITION where
// the host does not allow it.
carnot_status* carnot_plugin_library_load_bytes(const char* name, const void* data,
                                                size_t size) CARNOT_MUST_USE;
bool carnot_plugin_engine_code_allowed(void);

// The error of a call that failed with |error|.
carnot_status* carnot_plugin_failed(const carnot_plugin_instance* instance, const char* what,
                                    const carnot_plugin_error* error) CARNOT_MUST_USE;

#endif  // CARNOT_PLUGIN_REGISTRY_H_
