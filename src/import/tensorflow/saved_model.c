// Chooses graph and signature of a SavedModel. Source: tensorflow/core/protobuf/saved_model.proto,
// meta_graph.proto.
#include "import/tensorflow/saved_model.h"

#include <string.h>
#include <sys/stat.h>

#include "import/common/recognise.h"

// ---- what the bytes are ----

typedef enum form { GRAPH, META_GRAPH, SAVED_MODEL } form;

static bool is_text(carnot_strview bytes) {
  const size_t count = bytes.size < 256 ? bytes.size : 256;
  for (size_t i = 0; i < count; i++) {
    const unsigned char c = (unsigned char)bytes.data[i];
    if (c < 0x20 && c != '\n' && c != '\t' && c != '\r') return false;
  }
  return count > 0;
}

static bool begins_with_word(carnot_strview bytes, const char* word) {
  size_t at = 0;
  while (at < bytes.size && strchr(" \t\r\n", bytes.data[at])) at++;
  const size_t length = strlen(word);
  return bytes.size - at > length && memcmp(bytes.data + at, word, length) == 0;
}

// The bytes behind the length-delimited field |tag| at the beginning; false where it is none.
static bool skip_field(carnot_strview* bytes, char tag, carnot_strview* out_inside) {
  size_t length = 0, at = 1;
  if (bytes->size < 2 || bytes->data[0] != tag) return false;
  for (int shift = 0;; shift += 7) {
    if (at >= bytes->size || shift > 56) return false;
    const unsigned char byte = (unsigned char)bytes->data[at++];
    length |= (size_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) break;
  }
  if (length > bytes->size - at) length = bytes->size - at;  // a file cut short is told so later
  *out_inside = (carnot_strview){bytes->data + at, length};
  *bytes = (carnot_strview){bytes->data + at + length, bytes->size - at - length};
  return true;
}

static bool is_wire_meta(carnot_strview bytes) {
  carnot_strview inside;
  if (import_is_graph_def(bytes.data, bytes.size)) return false;
  (void)skip_field(&bytes, 0x0a, &inside);
  return skip_field(&bytes, 0x12, &inside) && import_is_graph_def(inside.data, inside.size);
}

static form form_of(carnot_strview bytes) {
  carnot_strview inside, rest = bytes;
  if (is_text(bytes)) {
    if (begins_with_word(bytes, "saved_model_schema_version") ||
        begins_with_word(bytes, "meta_graphs"))
      return SAVED_MODEL;
    return begins_with_word(bytes, "meta_info_def") ? META_GRAPH : GRAPH;
  }
  if (rest.size > 2 && rest.data[0] == 0x08 && rest.data[1] == 1)
    rest = (carnot_strview){rest.data + 2, rest.size - 2};
  if (skip_field(&rest, 0x12, &inside) && is_wire_meta(inside)) return SAVED_MODEL;
  return is_wire_meta(bytes) ? META_GRAPH : GRAPH;
}

bool tf_model_is(carnot_strview bytes) {
  return import_is_graph_def(bytes.data, bytes.size) || form_of(bytes) != GRAPH ||
         (is_text(bytes) && begins_with_word(bytes, "node"));
}

carnot_status* tf_model_file(const char* path, carnot_arena* arena, const char** out_path) {
  static const char* const kNames[] = {"saved_model.pb", "saved_model.pbtxt"};
  struct stat facts;
  *out_path = path;
  if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) return NULL;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); i++) {
    const char* inside = carnot_arena_print(arena, "%s/%s", path, kNames[i]);
    CARNOT_TRY(carnot_arena_status(arena));
    if (stat(inside, &facts) != 0) continue;
    *out_path = inside;
    return NULL;
  }
  const char* chunks = carnot_arena_print(arena, "%s/saved_model.cpb", path);
  CARNOT_TRY(carnot_arena_status(arena));
  CARNOT_CHECK(stat(chunks, &facts) != 0, UNSUPPORTED,
               "%s is a SavedModel in chunks (saved_model.cpb): save it anew as saved_model.pb",
               path);
  return CARNOT_ERROR(IO, "%s is a folder without saved_model.pb", path);
}

// ---- choosing ----

// "a, b" of |count| texts.
static const char* listed(carnot_arena* arena, const char* list, carnot_strview text) {
  return carnot_arena_print(arena, "%s%s" CARNOT_VIEW_FMT, list, *list ? ", " : "",
                            CARNOT_VIEW_ARG(text));
}

static const char* tags_of(const tf_meta_graph* meta, carnot_arena* arena) {
  const char* list = "";
  for (size_t i = 0; meta->meta_info_def && i < meta->meta_info_def->tags.count; i++)
    list = listed(arena, list, meta->meta_info_def->tags.items[i]);
  return list;
}

// The tags are exactly those that are wanted.
static bool has_tags(const tf_meta_graph* meta, const char* const* tags, size_t count) {
  const tf_text_list* own = meta->meta_info_def ? &meta->meta_info_def->tags : NULL;
  if ((own ? own->count : 0) != count) return false;
  for (size_t i = 0; i < count; i++) {
    bool found = false;
    for (size_t k = 0; k < count; k++) found |= carnot_view_is(own->items[k], tags[i]);
    if (!found) return false;
  }
  return true;
}

static carnot_status* choose_graph(const tf_saved_model* model,
                                   const carnot_tensorflow_options* options, carnot_arena* arena,
                                   const tf_meta_graph** out) {
  static const char* const kServe[] = {"serve"};
  const char* const* tags = options->tag_count ? options->tags : kServe;
  const size_t count = options->tag_count ? options->tag_count : 1;
  const char* there = "";
  CARNOT_CHECK(model->meta_graphs.count, INVALID_MODEL, "the SavedModel has no graph");
  for (size_t i = 0; i < model->meta_graphs.count; i++) {
    *out = &model->meta_graphs.items[i];
    if (has_tags(*out, tags, count)) return NULL;
    there = carnot_arena_print(arena, "%s%s[%s]", there, *there ? " " : "", tags_of(*out, arena));
  }
  if (!options->tag_count && model->meta_graphs.count == 1) return NULL;
  const char* wanted = "";
  for (size_t i = 0; i < count; i++) wanted = listed(arena, wanted, carnot_view(tags[i]));
  CARNOT_TRY(carnot_arena_status(arena));
  return CARNOT_ERROR(NOT_FOUND, "no graph has the tags [%s]; there are %s", wanted, there);
}

// The signature of an initializer is called so by TensorFlow 2 and no network.
static bool is_initializer(carnot_strview key) {
  return carnot_view_is(key, "__saved_model_init_op") ||
         carnot_view_is(key, "__saved_model_train_op");
}

static carnot_status* choose_signature(const tf_meta_graph* meta,
                                       const carnot_tensorflow_options* options,
                                       carnot_arena* arena, const tf_signature_def** out) {
  const char* wanted = options->signature ? options->signature : "serving_default";
  const char* there = "";
  const tf_signature_def* only = NULL;
  size_t count = 0;
  *out = NULL;
  for (size_t i = 0; i < meta->signature_def.count; i++) {
    const tf_named_signature* s = &meta->signature_def.items[i];
    if (carnot_view_is(s->key, wanted)) *out = s->value;
    if (is_initializer(s->key)) continue;
    only = s->value;
    count++;
    there = listed(arena, there, s->key);
  }
  CARNOT_TRY(carnot_arena_status(arena));
  if (!*out && !options->signature && count == 1) *out = only;
  CARNOT_CHECK(*out || (!options->signature && !count), NOT_FOUND,
               "no signature is called %s; there %s %s", wanted, count == 1 ? "is" : "are",
               count ? there : "none");
  return NULL;
}

// ---- reading ----

static carnot_status* read_message(const carnot_pb_message* message, carnot_strview bytes,
                                   carnot_arena* arena, void** out) {
  CARNOT_TRY(carnot_arena_try(arena, 1, message->size, "a model", out));
  if (is_text(bytes)) return carnot_pb_read_text(message, bytes.data, bytes.size, arena, *out);
  return carnot_pb_read_wire(message, bytes.data, bytes.size, arena, *out);
}

carnot_status* tf_model_read(carnot_strview bytes, const carnot_tensorflow_options* options,
                             carnot_arena* arena, tf_model* out_model) {
  static const carnot_pb_message* const kMessages[] = {
      &carnot_tf_graph_message, &carnot_tf_meta_graph_message, &carnot_tf_saved_model_message};
  const form kind = form_of(bytes);
  void* message;
  *out_model = (tf_model){.is_saved_model = kind == SAVED_MODEL};
  CARNOT_TRY(read_message(kMessages[kind], bytes, arena, &message));
  if (kind == GRAPH) {
    CARNOT_CHECK(!options->signature && !options->tag_count, INVALID_ARGUMENT,
                 "signature and tags are of SavedModels; the file holds a GraphDef");
    out_model->graph = message;
    return NULL;
  }
  if (kind == SAVED_MODEL)
    CARNOT_TRY(choose_graph(message, options, arena, &out_model->meta));
  else
    out_model->meta = message;
  CARNOT_CHECK(out_model->meta->graph_def, INVALID_MODEL, "the model has no graph_def");
  out_model->graph = out_model->meta->graph_def;
  if (options->output_count || options->input_count) return NULL;
  return choose_signature(out_model->meta, options, arena, &out_model->signature);
}
