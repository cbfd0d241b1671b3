// Plan metadata to bytes and back: one description of the format serves both directions.
#ifndef CARNOT_ENGINE_CODEC_H_
#define CARNOT_ENGINE_CODEC_H_

#include "plan/plan.h"

// The metadata of |plan| as bytes, to be followed by the characters of plan->inspector, which are
// not copied since they are long; the caller frees *out_bytes. Any thread while nobody changes the
// plan.
carnot_status* carnot_plan_encode(const carnot_plan* plan, void** out_bytes,
                                  size_t* out_size) CARNOT_MUST_USE;

// Reads metadata into a new plan, all of it copied. Every count is held against the bytes left;
// indices and enums are not checked here but by carnot_plan_verify.
carnot_status* carnot_plan_decode(const void* bytes, size_t size,
                                  carnot_plan** out_plan) CARNOT_MUST_USE;

#endif  // CARNOT_ENGINE_CODEC_H_
