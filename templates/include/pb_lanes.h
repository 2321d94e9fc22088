/* What reductions need of vector registers beside pb_vector.h: halves of float32 as float64. */
#ifndef PB_LANES_H
#define PB_LANES_H
#include "pb_vector.h"

/* the lower and the upper half of the lanes */
typedef pb_f32 pb_half_f32 __attribute__((vector_size(PB_VECTOR_BYTES / 2)));
#if defined(__AVX__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES == 32
#define PB_WIDER(x) __builtin_ia32_cvtps2pd256(x) /* GCC converts two and two otherwise */
#else
#define PB_WIDER(x) __builtin_convertvector(x, pb_v_f64)
#endif
PB_INLINE pb_v_f64 pb_v_low_f64(pb_v_f32 x) {
    union { pb_v_f32 whole; pb_half_f32 half[2]; } both = {x};
    return PB_WIDER(both.half[0]);
}
PB_INLINE pb_v_f64 pb_v_high_f64(pb_v_f32 x) {
    union { pb_v_f32 whole; pb_half_f32 half[2]; } both = {x};
    return PB_WIDER(both.half[1]);
}
#endif
