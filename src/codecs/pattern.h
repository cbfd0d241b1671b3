// Regular expressions by PCRE2; the functions are described in codecs.h.
#ifndef CARNOT_CODECS_PATTERN_H_
#define CARNOT_CODECS_PATTERN_H_

#include <stddef.h>

void* codecs_pattern_compile(const char* pattern, size_t length, char* why, size_t size);
int codecs_pattern_match(void* pattern, const char* text, size_t length);
void codecs_pattern_free(void* pattern);

#endif  // CARNOT_CODECS_PATTERN_H_
