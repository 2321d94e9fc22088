/* What reductions need of vector registers beside pb_vector.h: halves of float32 as float64, and where there are NaNs. */
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

/* where a or b is NaN */
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES == 32
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)__builtin_ia32_cmpps256(a, b, 3); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)__builtin_ia32_cmppd256(a, b, 3); }
#elif defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__) && PB_VECTOR_BYTES == 16
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)__builtin_ia32_cmpunordps(a, b); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)__builtin_ia32_cmpunordpd(a, b); }
#else
PB_INLINE pb_v_b32 pb_v_nans_f32(pb_v_f32 a, pb_v_f32 b) { return (pb_v_b32)((a != a) | (b != b)); }
PB_INLINE pb_v_b64 pb_v_nans_f64(pb_v_f64 a, pb_v_f64 b) { return (pb_v_b64)((a != a) | (b != b)); }
#endif
#endif
