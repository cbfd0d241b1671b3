// The registry of plugin creators: one a process, under one lock.
#include "plugin/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugin/builtin.h"

// Creators that were registered come first: a program may replace a built-in one.
static struct {
  pthread_mutex_t mutex;
  carnot_plugin_entry** entries;
  size_t count, capacity;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static carnot_plugin_entry* builtins;
static size_t builtin_count;
static pthread_once_t builtins_once = PTHREAD_ONCE_INIT;

static void make_builtins(void) {
  size_t table_count, total = 0;
  const carnot_plugin_builtins* const* tables = carnot_plugin_builtin_tables(&table_count);
  for (size_t t = 0; t < table_count; t++) total += tables[t]->count;
  builtins = calloc(total, sizeof(*builtins));
  if (!builtins) return;
  for (size_t t = 0; t < table_count; t++) {
    for (size_t i = 0; i < tables[t]->count; i++) {
      const carnot_plugin_builtin* row = &tables[t]->rows[i];
      carnot_plugin_entry* entry = &builtins[builtin_count++];
      entry->creator = (carnot_plugin_creator){.size = sizeof(carnot_plugin_creator),
                                               .api_version = CARNOT_PLUGIN_API_VERSION,
                                               .name = row->name,
                                               .version = row->version,
                                               .name_space = "",
                                               .fields = row->fields,
                                               .field_count = row->field_count,
                                               .user = (void*)row,
                                               .create = carnot_plugin_builtin_create};
      entry->address = &entry->creator;
      entry->builtin = row;
    }
  }
}

static void lock(void) {
  pthread_once(&builtins_once, make_builtins);
  pthread_mutex_lock(&registry.mutex);
}
static void unlock(void) { pthread_mutex_unlock(&registry.mutex); }

// Entry |index| of those registered, then those built in; NULL past the last.
static carnot_plugin_entry* entry_at(size_t index) {
  if (index < registry.count) return registry.entries[index];
  index -= registry.count;
  return index < builtin_count ? &builtins[index] : NULL;
}

static const char* text_or_empty(const char* text) { return text ? text : ""; }

static carnot_plugin_entry* find_exact(const char* name, const char* version,
                                       const char* name_space) {
  carnot_plugin_entry* entry;
  for (size_t i = 0; (entry = entry_at(i)); i++)
    if (strcmp(entry->creator.name, name) == 0 && strcmp(entry->creator.version, version) == 0 &&
        strcmp(entry->creator.name_space, name_space) == 0)
      return entry;
  return NULL;
}

// ---- adding and removing ----

static carnot_status* read_creator(const carnot_plugin_creator* from, carnot_plugin_creator* out) {
  CARNOT_CHECK(from, INVALID_ARGUMENT, "a creator is NULL");
  CARNOT_CHECK(
      from->api_version >= CARNOT_PLUGIN_API_OLDEST &&
          from->api_version <= CARNOT_PLUGIN_API_VERSION,
      VERSION_MISMATCH,
      "a creator was written for version %d of the plugin interface; versions %d to %d work",
      from->api_version, CARNOT_PLUGIN_API_OLDEST, CARNOT_PLUGIN_API_VERSION);
  size_t least = offsetof(carnot_plugin_creator, create) + sizeof(from->create);
  CARNOT_CHECK(from->size >= least, VERSION_MISMATCH,
               "a creator has %zu bytes, version %d of the interface has %zu", from->size,
               from->api_version, least);
  *out = (carnot_plugin_creator){0};
  memcpy(out, from, from->size < sizeof(*out) ? from->size : sizeof(*out));
  CARNOT_CHECK(out->name && out->name[0] && out->version && out->create, INVALID_ARGUMENT,
               "a creator lacks its %s",
               !out->name || !out->name[0] ? "name"
               : !out->version             ? "version"
                                           : "create");
  CARNOT_CHECK(out->field_count >= 0 && (out->fields || !out->field_count), INVALID_ARGUMENT,
               "creator %s has %d fields", out->name, out->field_count);
  return NULL;
}

static carnot_status* add(const carnot_plugin_creator* from, const char* name_space,
                          carnot_plugin_library* library) {
  carnot_plugin_creator creator;
  CARNOT_TRY(read_creator(from, &creator));
  bool named = creator.name_space && creator.name_space[0];
  creator.name_space = named ? creator.name_space : text_or_empty(name_space);
  carnot_plugin_entry* other = find_exact(creator.name, creator.version, creator.name_space);
  CARNOT_CHECK(!other || other->builtin, INVALID_ARGUMENT,
               "plugin %s version %s is registered already in namespace \"%s\"", creator.name,
               creator.version, creator.name_space);
  void *entries = registry.entries, *memory;
  CARNOT_TRY(carnot_grow(&entries, &registry.capacity, registry.count + 1,
                         sizeof(*registry.entries), "plugin creators"));
  registry.entries = entries;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_plugin_entry), "a plugin creator", &memory));
  carnot_plugin_entry* entry = memory;
  *entry = (carnot_plugin_entry){.creator = creator, .address = from, .library = library};
  entry->creator.name_space = strdup(creator.name_space);
  if (!entry->creator.name_space) {
    free(entry);
    return CARNOT_NO_MEMORY(strlen(creator.name_space), "a namespace");
  }
  registry.entries[registry.count++] = entry;
  return NULL;
}

static bool belongs(const carnot_plugin_entry* entry, const carnot_plugin_library* library,
                    const carnot_plugin_creator* address) {
  return library ? entry->library == library : entry->address == address;
}

static void remove_all(const carnot_plugin_library* library, const carnot_plugin_creator* address) {
  size_t kept = 0;
  for (size_t i = 0; i < registry.count; i++) {
    carnot_plugin_entry* entry = registry.entries[i];
    if (!belongs(entry, library, address)) {
      registry.entries[kept++] = entry;
      continue;
    }
    free((char*)entry->creator.name_space);
    free(entry);
  }
  registry.count = kept;
  if (kept) return;
  free(registry.entries);
  registry.entries = NULL;
  registry.capacity = 0;
}

carnot_status* carnot_registry_add(const carnot_plugin_creator* const* creators, int32_t count,
                                   const char* name_space, carnot_plugin_library* library) {
  lock();
  carnot_status* status = NULL;
  for (int32_t i = 0; i < count && !status; i++) status = add(creators[i], name_space, library);
  if (status && library) remove_all(library, NULL);
  unlock();
  return status;
}

static carnot_status* remove_idle(const carnot_plugin_library* library,
                                  const carnot_plugin_creator* address) {
  size_t found = 0;
  for (size_t i = 0; i < registry.count; i++) {
    const carnot_plugin_entry* entry = registry.entries[i];
    if (!belongs(entry, library, address)) continue;
    found++;
    CARNOT_CHECK(!entry->live && !entry->made, FAILED_PRECONDITION,
                 "%d plugins %s version %s live: destroy contexts and plugins first",
                 entry->live + entry->made, entry->creator.name, entry->creator.version);
  }
  CARNOT_CHECK(found || library, NOT_FOUND, "this creator is not registered");
  remove_all(library, address);
  return NULL;
}

carnot_status* carnot_registry_remove(const carnot_plugin_library* library,
                                      const carnot_plugin_creator* address) {
  lock();
  carnot_status* status = remove_idle(library, address);
  unlock();
  return status;
}

carnot_status* carnot_plugin_register(const carnot_plugin_creator* creator) {
  return carnot_registry_add(&creator, 1, NULL, NULL);
}
carnot_status* carnot_plugin_deregister(const carnot_plugin_creator* creator) {
  return carnot_registry_remove(NULL, creator);
}

// ---- finding ----

// Letters that two names share at their beginning and end, in hundredths of the longer.
static int likeness(const char* a, const char* b) {
  size_t la = strlen(a), lb = strlen(b), least = la < lb ? la : lb, head = 0, tail = 0;
  while (head < least && a[head] == b[head]) head++;
  while (tail < least - head && a[la - 1 - tail] == b[lb - 1 - tail]) tail++;
  return (int)((head + tail) * 100 / (la > lb ? la : lb ? lb : 1));
}

const char* carnot_plugin_library_name(const carnot_plugin_library* library) {
  const char* slash = strrchr(library->path, '/');
  return slash ? slash + 1 : library->path;
}

const char* carnot_plugin_library_path(const carnot_plugin_library* library) {
  return library->path;
}

static void print_entry(const carnot_plugin_entry* e, char* text, size_t size) {
  bool in_space = e->creator.name_space[0] != 0;
  snprintf(text, size, "%s version %s%s%s%s%s%s", e->creator.name, e->creator.version,
           in_space ? " (namespace " : "", e->creator.name_space, in_space ? ")" : "",
           e->library ? " of " : "", e->library ? carnot_plugin_library_name(e->library) : "");
}

// Text of the entries whose name is as like |name| as any, at most six.
static void print_nearest(const char* name, char* text, size_t size) {
  const carnot_plugin_entry* entry;
  int best = 0;
  for (size_t i = 0; (entry = entry_at(i)); i++) {
    int like = likeness(name, entry->creator.name);
    if (like > best) best = like;
  }
  enum { kWorthNaming = 60 };
  size_t at = 0;
  text[0] = 0;
  int shown = 0;
  if (best < kWorthNaming) return;
  int least = best == 100 ? 100 : best * 3 / 4;
  for (size_t i = 0; (entry = entry_at(i)) && shown < 6; i++) {
    if (likeness(name, entry->creator.name) < least || at + 160 > size) continue;
    if (shown++) at += (size_t)snprintf(text + at, size - at, ", ");
    print_entry(entry, text + at, size - at);
    at += strlen(text + at);
  }
}

void carnot_registry_nearest(const char* name, char* text, size_t size) {
  lock();
  print_nearest(name, text, size);
  unlock();
}

static carnot_status* not_found(const carnot_plugin_key* key) {
  char nearest[1200];
  print_nearest(key->name, nearest, sizeof(nearest));
  bool other_version = false;
  const carnot_plugin_entry* entry;
  for (size_t i = 0; (entry = entry_at(i)); i++)
    other_version |= strcmp(entry->creator.name, key->name) == 0 &&
                     strcmp(entry->creator.name_space, key->name_space) == 0;
  const char* library = text_or_empty(key->library);
  const char* there = !nearest[0]     ? ""
                      : other_version ? "; versions that are there: "
                                      : "; the nearest are: ";
  return carnot_status_make(
      other_version ? CARNOT_VERSION_MISMATCH : CARNOT_NOT_FOUND, __FILE__, __LINE__,
      "plugin %s version %s%s%s is needed%s%s%s and not registered%s%s", key->name, key->version,
      key->name_space[0] ? " in namespace " : "", key->name_space,
      library[0] ? " (it came from library " : "", library, library[0] ? ")" : "", there, nearest);
}

carnot_status* carnot_registry_find(const carnot_plugin_key* key, carnot_plugin_entry** out_entry) {
  carnot_plugin_key full = {key->name, text_or_empty(key->version), text_or_empty(key->name_space),
                            key->library};
  lock();
  *out_entry = find_exact(full.name, full.version, full.name_space);
  carnot_status* status = *out_entry ? NULL : not_found(&full);
  unlock();
  return status;
}

carnot_plugin_entry* carnot_registry_lookup(const char* name, const char* version,
                                            const char* name_space) {
  lock();
  carnot_plugin_entry* entry = find_exact(name, text_or_empty(version), text_or_empty(name_space));
  unlock();
  return entry;
}

size_t carnot_plugin_creator_count(void) {
  lock();
  size_t count = registry.count + builtin_count;
  unlock();
  return count;
}

const carnot_plugin_creator* carnot_plugin_creator_at(size_t index) {
  lock();
  const carnot_plugin_entry* entry = entry_at(index);
  unlock();
  return entry ? &entry->creator : NULL;
}

carnot_status* carnot_plugin_find(const char* name, const char* version, const char* name_space,
                                  const carnot_plugin_creator** out_creator) {
  *out_creator = NULL;
  CARNOT_CHECK(name && version, INVALID_ARGUMENT, "a plugin is asked for without name or version");
  carnot_plugin_entry* entry;
  CARNOT_TRY(carnot_registry_find(&(carnot_plugin_key){name, version, name_space, NULL}, &entry));
  *out_creator = &entry->creator;
  return NULL;
}

// ---- holding ----

carnot_status* carnot_registry_take(const carnot_plugin_key* key, carnot_plugin_entry** out_entry) {
  carnot_plugin_key full = {key->name, text_or_empty(key->version), text_or_empty(key->name_space),
                            key->library};
  lock();
  *out_entry = find_exact(full.name, full.version, full.name_space);
  carnot_status* status = *out_entry ? NULL : not_found(&full);
  if (*out_entry) (*out_entry)->live++;
  unlock();
  return status;
}

void carnot_registry_count(carnot_plugin_entry* entry, int live, int made) {
  lock();
  entry->live += live;
  entry->made += made;
  unlock();
}

void carnot_registry_drop_made(const carnot_plugin_key* key) {
  lock();
  carnot_plugin_entry* entry = find_exact(key->name, key->version, text_or_empty(key->name_space));
  if (entry && entry->made > 0) entry->made--;
  unlock();
}
