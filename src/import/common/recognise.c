// What a file is that was given as a model and is none: by its first bytes.
#include "import/common/recognise.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EXPORT      "export the model with torch.onnx.export(model, args, \"model.onnx\", dynamo=True)"
#define SAVED_MODEL "write a SavedModel with model.export(\"folder\") in Keras"

static bool contains(const void* data, size_t size, const char* text) {
  enum { kFirst = 1 << 16 };  // names of a zip archive's first entries
  return memmem(data, size < kFirst ? size : kFirst, text, strlen(text)) != NULL;
}

static const char* recognise_zip(const void* data, size_t size) {
  if (contains(data, size, "data.pkl")) return "a zip archive as torch.save writes it: " EXPORT;
  if (contains(data, size, "archive_format") || contains(data, size, "models/model.json"))
    return "a zip archive as torch.export.save writes it: " EXPORT;
  if (contains(data, size, "metadata.json") && contains(data, size, "config.json"))
    return "a Keras model (.keras): " SAVED_MODEL;
  if (contains(data, size, ".npy")) return "a zip archive of NumPy arrays (.npz), not a model";
  return "a zip archive: unpack it and give the .onnx file inside";
}

static bool is_text(const uint8_t* bytes, size_t size) {
  size_t count = size < 256 ? size : 256;
  for (size_t i = 0; i < count; i++)
    if (bytes[i] < 0x20 && !memchr("\t\n\r\f", bytes[i], 4)) return false;
  return count >= 4;
}

static bool begins(const void* data, size_t size, const char* text) {
  return size >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

bool import_is_caffe(const void* data, size_t size) {
  enum { kFirst = 1 << 16 };
  static const char kWord[] = "layer";
  const char *at = data, *end = at + (size < kFirst ? size : kFirst);
  if (!is_text(data, size)) return false;
  while ((at = memmem(at, (size_t)(end - at), kWord, sizeof(kWord) - 1)) != NULL) {
    at += sizeof(kWord) - 1;
    if (at < end && *at == 's') at++;
    while (at < end && memchr(" \t\r\n", *at, 4)) at++;
    if (at < end && memchr("{<:#", *at, 4)) return true;
  }
  return false;
}

static bool is_text_of(const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] < 0x20) return false;
  return true;
}

static const char* recognise_text(const void* data, size_t size) {
  static const struct {
    const char *word, *what;
  } kTexts[] = {
      {"version https://git-lfs", "a Git LFS pointer, not the file itself: run `git lfs pull`"},
      {"<!DOCTYPE", "an HTML page: the download did not give the file"},
      {"<!doctype", "an HTML page: the download did not give the file"},
      {"<html", "an HTML page: the download did not give the file"},
      {"<?xml", "an XML file, as OpenVINO's IR: give the ONNX model it was made from"}};
  for (size_t i = 0; i < sizeof(kTexts) / sizeof(kTexts[0]); i++)
    if (begins(data, size, kTexts[i].word)) return kTexts[i].what;
  if (import_is_caffe(data, size)) return "a Caffe network as text (.prototxt)";
  return "a text file, not a model";
}

// A length, in at most four bytes; the bytes that it takes, 0 where it is none.
static size_t read_length(const uint8_t* bytes, size_t size, size_t* out) {
  *out = 0;
  for (size_t i = 0; i < size && i < 4; i++) {
    *out |= (size_t)(bytes[i] & 0x7f) << (7 * i);
    if (!(bytes[i] & 0x80)) return i + 1;
  }
  return 0;
}

// Field 1 (node) is a message with field 1 (name) and 2 (op) as texts; ONNX has a number there.
bool import_is_graph_def(const void* data, size_t size) {
  const uint8_t* bytes = data;
  size_t length, name, op, at;
  if (size < 8 || bytes[0] != 0x0a) return false;
  if (!(at = read_length(bytes + 1, size - 1, &length)) || length > size - 1 - at) return false;
  const uint8_t* node = bytes + 1 + at;
  if (length < 4 || node[0] != 0x0a) return false;
  if (!(at = read_length(node + 1, length - 1, &name)) || name > length - 1 - at) return false;
  const size_t next = 1 + at + name;
  if (next + 2 > length || node[next] != 0x12) return false;
  return read_length(node + next + 1, length - next - 1, &op) && op > 0 && op < length - next &&
         is_text_of(node + 1 + at, name);
}

// Two numbers, the versions, before the list of extensions (field 3) or graphs (field 4).
static bool is_uff(const uint8_t* bytes, size_t size) {
  return size >= 6 && bytes[0] == 0x08 && bytes[1] < 0x80 && bytes[2] == 0x10 && bytes[3] < 0x80 &&
         (bytes[4] == 0x1a || bytes[4] == 0x22);
}

const char* import_recognise(const void* data, size_t size) {
  static const struct {
    size_t offset, length;
    const char *magic, *what;
  } kFiles[] = {
      {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes it (.h5): " SAVED_MODEL},
      {0, 2, "\x80\x02", "a pickle, as older versions of torch.save write it: " EXPORT},
      {4, 4, "TFL3", "a TensorFlow Lite model: convert it with tf2onnx (--tflite)"},
      {4, 4, "ORTM", "an ONNX Runtime model (.ort): give the ONNX model it was made from"},
      {0, 4, "GGUF", "a GGUF file of weights: give an ONNX model"},
      {4, 6, "\0\0\0\0{\"", "a safetensors file of weights without the network: " EXPORT},
      {0, 8, "CARNOT\x1a\n", "a Carnot engine: it is loaded, not built"},
      {0, 4, "ftrt", "a TensorRT engine: give the ONNX model it was built from"},
      {0, 6, "\x93NUMPY", "a NumPy array (.npy), not a model"},
      {0, 2, "\x1f\x8b", "compressed by gzip: unpack it"},
      {257, 5, "ustar", "a tar archive: unpack it and give the .onnx file inside"},
      {0, 4,
       "\x7f"
       "ELF",
       "a program or library, not a model"},
      {0, 4, "\x89PNG", "a picture, not a model"},
      {0, 3, "\xff\xd8\xff", "a picture, not a model"}};
  const uint8_t* bytes = data;
  if (size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0) return recognise_zip(data, size);
  for (size_t i = 0; i < sizeof(kFiles) / sizeof(kFiles[0]); i++)
    if (size >= kFiles[i].offset + kFiles[i].length &&
        memcmp(bytes + kFiles[i].offset, kFiles[i].magic, kFiles[i].length) == 0)
      return kFiles[i].what;
  if (is_uff(bytes, size))
    return "a UFF model (.uff): give the frozen TensorFlow graph (.pb) that it was made from";
  return is_text(bytes, size) ? recognise_text(data, size) : NULL;
}
