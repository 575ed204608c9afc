/* Included in each module that is compiled for fuzzing. gcc calls __sanitizer_cov_trace_pc() at each edge; libFuzzer
   reads arrays of counters, one for a place in the code, as clang would have made them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#define SCOPEGATE_COUNTERS 8192
static uint8_t scopegate_counters[SCOPEGATE_COUNTERS];

__attribute__((no_sanitize_coverage, no_sanitize("address"), visibility("hidden"))) void
__sanitizer_cov_trace_pc(void)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    uint8_t *counter = &scopegate_counters[(place ^ (place >> 13)) % SCOPEGATE_COUNTERS];
    if (*counter < 255)
        ++*counter;
}

/* gcc calls these where floating-point numbers are compared; libFuzzer has none of them. */
__attribute__((no_sanitize_coverage, visibility("hidden"))) void
__sanitizer_cov_trace_cmpf(float a, float b)
{
    (void)a, (void)b;
}

__attribute__((no_sanitize_coverage, visibility("hidden"))) void
__sanitizer_cov_trace_cmpd(double a, double b)
{
    (void)a, (void)b;
}

__attribute__((no_sanitize_coverage, constructor)) static void
scopegate_register(void)
{
    void (*init)(uint8_t *, uint8_t *) =
        (void (*)(uint8_t *, uint8_t *))dlsym(RTLD_DEFAULT, "__sanitizer_cov_8bit_counters_init");
    if (init)
        init(scopegate_counters, scopegate_counters + SCOPEGATE_COUNTERS);
}
