// What the tests of half precision share: configurations, bounds, and a run on every ISA level.
#include "half.h"

const carnot_dtype half_types[2] = {CARNOT_DTYPE_F16, CARNOT_DTYPE_BF16};

double half_cost(carnot_dtype half) {
  return (half == CARNOT_DTYPE_F16 ? 0x1p-11 : 2 * 0x1p-9) + 0x1p-20;
}

carnot_build_config half_config(int isa, carnot_dtype half) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.isa = isa;
  config.level = 0;
  config.typing.f16 = half == CARNOT_DTYPE_F16;
  config.typing.bf16 = half == CARNOT_DTYPE_BF16;
  return config;
}

int half_steps(const carnot_engine* engine, const char* text) {
  int count = 0;
  for (uint32_t i = 0; i < engine->plan->step_count; i++)
    count += strstr(engine->plan->steps[i].variants[0].tactic, text) != NULL;
  return count;
}

void half_within(const float* found, const double* wanted, const double* bound, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (fabs((double)found[i] - wanted[i]) <= bound[i]) continue;
    print_error("element %zu of %zu is %.9g, must be %.9g within %.3g\n", i, count,
                (double)found[i], wanted[i], bound[i]);
    fail();
  }
}

void half_each_tactic(half_check* check) {
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++)
    for (size_t h = 0; h < 2; h++) {
      if (!carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)isa)) continue;
      carnot_build_config config = half_config(isa, half_types[h]);
      check(&config, h ? "_bf16_" : "_f16_", half_cost(half_types[h]));
    }
}
