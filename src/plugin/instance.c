// Plugins made by creators.
#include <stdlib.h>

#include "plugin/registry.h"

carnot_status* carnot_plugin_read(const carnot_plugin* plugin, carnot_plugin* out) {
  *out = (carnot_plugin){0};
  CARNOT_CHECK(plugin->api_version >= CARNOT_PLUGIN_API_OLDEST &&
                   plugin->api_version <= CARNOT_PLUGIN_API_VERSION,
               VERSION_MISMATCH,
               "a plugin was written for version %d of the interface; versions %d to %d work",
               plugin->api_version, CARNOT_PLUGIN_API_OLDEST, CARNOT_PLUGIN_API_VERSION);
  size_t least = offsetof(carnot_plugin, timing_key) + sizeof(plugin->timing_key);
  CARNOT_CHECK(plugin->size >= least, VERSION_MISMATCH,
               "a plugin has %zu bytes, version %d of the interface has %zu", plugin->size,
               plugin->api_version, least);
  memcpy(out, plugin, plugin->size < sizeof(*out) ? plugin->size : sizeof(*out));
  const char* missing = !out->name        ? "name"
                        : !out->version   ? "version"
                        : !out->serialize ? "serialize"
                        : !out->destroy   ? "destroy"
                                          : NULL;
  CARNOT_CHECK(!missing, INVALID_ARGUMENT, "a plugin has no %s", missing);
  CARNOT_CHECK(out->output_count >= 1 && out->output_count <= 1024, INVALID_ARGUMENT,
               "plugin %s has %d outputs", out->name, out->output_count);
  if (!out->name_space) out->name_space = "";
  return NULL;
}

carnot_status* carnot_plugin_failed(const carnot_plugin_instance* instance, const char* what,
                                    const carnot_plugin_error* error) {
  const carnot_plugin_creator* c = &instance->entry->creator;
  return CARNOT_ERROR(INVALID_ARGUMENT, "plugin %s version %s: %s: %.*s", c->name, c->version, what,
                      (int)sizeof(error->message) - 1,
                      error->message[0] ? error->message : "it gives no reason");
}

// Takes |made|, of |entry|, whose count it has already.
static carnot_status* wrap(carnot_plugin_entry* entry, carnot_plugin* made,
                           carnot_plugin_instance** out_instance) {
  carnot_plugin plugin;
  carnot_status* status = carnot_plugin_read(made, &plugin);
  if (!status && (strcmp(plugin.name, entry->creator.name) != 0 ||
                  strcmp(plugin.version, entry->creator.version) != 0))
    status = CARNOT_ERROR(INVALID_ARGUMENT, "the creator of %s version %s made a %s version %s",
                          entry->creator.name, entry->creator.version, plugin.name, plugin.version);
  void* memory = NULL;
  if (!status) status = carnot_calloc(1, sizeof(carnot_plugin_instance), "a plugin", &memory);
  if (status) {
    if (plugin.destroy) plugin.destroy(plugin.self);
    return status;
  }
  carnot_plugin_instance* instance = memory;
  *instance = (carnot_plugin_instance){.plugin = plugin, .made = made, .entry = entry};
  *out_instance = instance;
  return NULL;
}

// The caller's entry is counted; on success so is the plugin.
static carnot_status* create(carnot_plugin_entry* entry, const char* layer_name,
                             const carnot_plugin_field* fields, int32_t count,
                             carnot_plugin_phase phase, carnot_plugin** out_plugin) {
  carnot_plugin_error error = {{0}};
  const carnot_plugin_creator* c = &entry->creator;
  *out_plugin = c->create(c->user, layer_name, fields, count, phase, &error);
  if (*out_plugin) return NULL;
  return carnot_plugin_failed(&(carnot_plugin_instance){.entry = entry}, "it was not created",
                              &error);
}

carnot_status* carnot_plugin_open(const carnot_plugin_key* key, carnot_strview bytes,
                                  carnot_plugin_phase phase,
                                  carnot_plugin_instance** out_instance) {
  *out_instance = NULL;
  carnot_plugin_entry* entry;
  CARNOT_TRY(carnot_registry_take(key, &entry));
  carnot_arena arena = {0};
  carnot_fields fields;
  carnot_plugin* made;
  carnot_status* status = carnot_arena_prepare(&arena);
  if (!status) status = carnot_fields_unpack(bytes, &arena, &fields);
  if (!status) status = create(entry, NULL, fields.items, fields.count, phase, &made);
  if (!status) status = wrap(entry, made, out_instance);
  carnot_arena_deinit(&arena);
  if (status) carnot_registry_count(entry, -1, 0);
  return status;
}

static carnot_status* clone_by_fields(const carnot_plugin_instance* from, carnot_plugin** out) {
  carnot_plugin_error error = {{0}};
  const carnot_plugin_field* fields;
  int32_t count;
  if (!from->plugin.serialize(from->plugin.self, &fields, &count, &error))
    return carnot_plugin_failed(from, "serialize", &error);
  return create(from->entry, NULL, fields, count, CARNOT_PLUGIN_RUNTIME, out);
}

carnot_status* carnot_plugin_open_clone(const carnot_plugin_instance* from,
                                        carnot_plugin_instance** out_instance) {
  *out_instance = NULL;
  carnot_plugin_error error = {{0}};
  carnot_plugin* made = NULL;
  if (from->plugin.clone) {
    made = from->plugin.clone(from->plugin.self, &error);
    if (!made) return carnot_plugin_failed(from, "clone", &error);
  } else {
    CARNOT_TRY(clone_by_fields(from, &made));
  }
  carnot_registry_count(from->entry, 1, 0);
  carnot_status* status = wrap(from->entry, made, out_instance);
  if (status) carnot_registry_count(from->entry, -1, 0);
  return status;
}

void carnot_plugin_close(carnot_plugin_instance* instance) {
  if (!instance) return;
  instance->plugin.destroy(instance->plugin.self);
  carnot_registry_count(instance->entry, -1, 0);
  free(instance);
}

static carnot_status* check_fields(const carnot_plugin_creator* c,
                                   const carnot_plugin_field* fields, int32_t count) {
  CARNOT_CHECK(count >= 0 && (fields || !count), INVALID_ARGUMENT, "plugin %s: %d fields", c->name,
               count);
  for (int32_t i = 0; i < count; i++) {
    CARNOT_CHECK(fields[i].name && fields[i].name[0], INVALID_ARGUMENT,
                 "plugin %s: field %d has no name", c->name, i);
    CARNOT_CHECK((unsigned)fields[i].type < CARNOT_FIELD_TYPE_COUNT && fields[i].length >= 0 &&
                     (fields[i].data || !fields[i].length),
                 INVALID_ARGUMENT, "plugin %s: field %s has type %d, length %d and %s data",
                 c->name, fields[i].name, (int)fields[i].type, fields[i].length,
                 fields[i].data ? "some" : "no");
  }
  return NULL;
}

carnot_status* carnot_plugin_create(const carnot_plugin_creator* creator, const char* layer_name,
                                    const carnot_plugin_field* fields, int32_t field_count,
                                    carnot_plugin** out_plugin) {
  *out_plugin = NULL;
  CARNOT_CHECK(creator && creator->name, INVALID_ARGUMENT, "no creator");
  CARNOT_TRY(check_fields(creator, fields, field_count));
  carnot_plugin_entry* entry;
  CARNOT_TRY(carnot_registry_take(
      &(carnot_plugin_key){creator->name, creator->version, creator->name_space, NULL}, &entry));
  carnot_status* status =
      create(entry, layer_name, fields, field_count, CARNOT_PLUGIN_BUILD, out_plugin);
  carnot_plugin checked;
  if (!status) status = carnot_plugin_read(*out_plugin, &checked);
  if (status) *out_plugin = NULL;
  carnot_registry_count(entry, -1, !status);
  return status;
}

void carnot_plugin_destroy(carnot_plugin* plugin) {
  if (!plugin) return;
  carnot_registry_drop_made(
      &(carnot_plugin_key){plugin->name, plugin->version, plugin->name_space, NULL});
  plugin->destroy(plugin->self);
}
