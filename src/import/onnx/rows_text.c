// Text and images.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("StringConcat", 20, STRING_CONCAT),         SAME("StringSplit", 20, STRING_SPLIT),
    SAME("StringNormalizer", 10, STRING_NORMALIZER), SAME("RegexFullMatch", 20, REGEX_FULL_MATCH),
    SAME("TfIdfVectorizer", 9, TFIDF_VECTORIZER),    SAME("ImageDecoder", 20, IMAGE_DECODER),
};
const onnx_row_table onnx_rows_text = ONNX_ROW_TABLE(kRows);
