/* Powers and what else needs more digits than one float has: pow log10 sinh cosh, at most 2.5 ULP.
 *
 * f64 takes the logarithm as a sum of two doubles (to about 2**-64), so that results which are representable, such as powers of
 * small integers, come out exact; f32 goes through f64. Included by pb_math.h alone.
 */

/* log(x) to about 2**-44, for x positive, finite and normal: as good as exact for f32 */
PB_INLINE pb_f64 pb_log_for_f32(pb_f64 x) {
    uint64_t u = pb_bits_f64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    pb_f64 k = pb_from_bits_f64(0x4330000000000000u | (u >> 52)) - (4503599627370496.0 + 1023.0);
    pb_f64 f = pb_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    pb_f64 s = f / (2.0 + f), z = s * s, p = 0.09792760452303484;
    p = PB_FMA_f64(p, z, 0.1108804982666976);
    p = PB_FMA_f64(p, z, 0.14286055566870898);
    p = PB_FMA_f64(p, z, 0.19999997802392264);
    p = PB_FMA_f64(p, z, 0.33333333337922966);
    return PB_FMA_f64(k, 0.6931471805599453, PB_FMA_f64(p * z, s + s, s + s));
}

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
/* a * b - p for p = a * b rounded */
PB_INLINE pb_f64 pb_rest_of_product(pb_f64 a, pb_f64 b, pb_f64 p) { return __builtin_fma(a, b, -p); }

/* log(x) for x positive and finite: a double, and the rest through the pointer.
 * log(m) = 2 s (1 + z (1/3 + z Q(z))) with s = (m - 1) / (m + 1) and z = s * s; Q is a minimax fit. */
PB_INLINE pb_f64 pb_log_in_two(pb_f64 x, pb_f64 *rest) {
    int tiny = x < 0x1p-1022;
    pb_f64 scaled = x * 0x1p54;
    uint64_t u = pb_bits_f64(tiny ? scaled : x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    pb_f64 k = pb_from_bits_f64(0x4330000000000000u | (u >> 52)) - (4503599627370496.0 + 1023.0) - (tiny ? 54.0 : 0.0);
    pb_f64 f = pb_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    pb_f64 d = 2.0 + f, d_rest = f - (d - 2.0), inverse = 1.0 / d;
    pb_f64 s = f * inverse, back = s * d;
    pb_f64 s_rest = (((f - back) - pb_rest_of_product(s, d, back)) - s * d_rest) * inverse;
    pb_f64 z = s * s, z_rest = pb_rest_of_product(s, s, z) + (s + s) * s_rest;
    pb_f64 z2 = z * z, q = PB_FMA_f64(z, 0.1428571428504597, 0.20000000000001136); /* in pairs: a shorter chain */
    pb_f64 q2 = PB_FMA_f64(z, 0.09090892118787015, 0.1111111126067347);
    pb_f64 q4 = PB_FMA_f64(z, 0.06628334621576422, 0.07693381755415948);
    q = PB_FMA_f64(PB_FMA_f64(PB_FMA_f64(0.06598873522527386, z2, q4), z2, q2), z2, q);
    pb_f64 zq = z * q, w = 0.3333333333333333 + zq, w_rest = ((0.3333333333333333 - w) + zq) + 1.850371707708594e-17;
    pb_f64 v = z * w, v_rest = pb_rest_of_product(z, w, v) + (z * w_rest + z_rest * w);
    pb_f64 t = s + s, t_rest = s_rest + s_rest;
    pb_f64 p = t * v, p_rest = pb_rest_of_product(t, v, p) + (t * v_rest + t_rest * v);
    pb_f64 m = t + p, m_rest = ((t - m) + p) + (t_rest + p_rest);
    pb_f64 a = k * 6.93147180369123816490e-01; /* exact: 33 bits by 11 */
    pb_f64 h = a + m, h_rest = ((a - h) + m) + (m_rest + k * 1.90821492927058770002e-10);
    *rest = h_rest;
    return h;
}

/* Powers of positive normal numbers that are normal themselves; special values, negative bases and what over- or underflows is
 * libm's (pb_guarded.h). */
PB_INLINE pb_f64 pb_quick_pow_f64(pb_f64 x, pb_f64 y, pb_f64 *doubt) {
    pb_f64 rest, log = pb_log_in_two(x, &rest), p = y * log, p_rest = pb_rest_of_product(y, log, p) + y * rest;
    pb_f64 shifted = PB_FMA_f64(p, 1.4426950408889634, PB_BIASED_f64), n = shifted - PB_BIASED_f64;
    pb_f64 r = PB_FMA_f64(n, -6.93147180369123816490e-01, p), r_rest = PB_FMA_f64(n, -1.90821492927058770002e-10, p_rest);
    pb_f64 s = r + r_rest, s_rest = (r - s) + r_rest;
    pb_f64 one = 1.0 + s, one_rest = ((1.0 - one) + s) + PB_FMA_f64(s_rest, s, s_rest);
    *doubt = ((x >= 0x1p-1022) & (x < PB_INF_f64) & (__builtin_fabs(p) < 708.0)) ? 0.0 : 1.0;
    return (one + (one_rest + pb_expm1_rest_f64(s))) * pb_scale_f64(shifted);
}
PB_INLINE pb_f32 pb_quick_pow_f32(pb_f32 x, pb_f32 y, pb_f32 *doubt) {
    pb_f64 p = (pb_f64)y * pb_log_for_f32((pb_f64)x);
    pb_f64 shifted = PB_FMA_f64(p, 1.4426950408889634, PB_BIASED_f64), n = shifted - PB_BIASED_f64;
    pb_f64 s = PB_FMA_f64(n, -0.6931471805599453, p), e = 0.00019799505037210776;
    e = PB_FMA_f64(e, s, 0.0013945011948276816);
    e = PB_FMA_f64(e, s, 0.008333483985246727);
    e = PB_FMA_f64(e, s, 0.04166629008733081);
    e = PB_FMA_f64(e, s, 0.16666665909137154);
    e = PB_FMA_f64(e, s, 0.5000000069096189);
    pb_f32 size = (pb_f32)p;
    *doubt = ((x > 0) & (x < PB_INF_f32) & (__builtin_fabsf(size) < 150.0f)) ? 0.0f : 1.0f;
    return (pb_f32)((1.0 + PB_FMA_f64(e, s * s, s)) * pb_scale_f64(shifted));
}
#if !defined(PB_ONLY_USED) || defined(PB_USE_pow)
PB_GUARDED2(pow, __builtin_pow)
#endif

/* exact at powers of ten */
PB_INLINE pb_f64 pb_log10_f64(pb_f64 x) {
    pb_f64 rest, log = pb_log_in_two(x, &rest), p = log * 0.4342944819032518;
    pb_f64 low = pb_rest_of_product(log, 0.4342944819032518, p) + (log * 1.098319650216765e-17 + rest * 0.4342944819032518);
    pb_f64 y = p + low;
    PB_LOG_EDGES(f64, x, y);
}
#else /* without a fused multiply-add libm is as quick */
PB_INLINE pb_f64 pb_pow_f64(pb_f64 a, pb_f64 b) { return __builtin_pow(a, b); }
PB_INLINE pb_f32 pb_pow_f32(pb_f32 a, pb_f32 b) { return __builtin_powf(a, b); }
PB_INLINE pb_f64 pb_log10_f64(pb_f64 x) { return __builtin_log10(x); }
#endif

PB_INLINE pb_f32 pb_log10_f32(pb_f32 x) {
    pb_f32 y = (pb_f32)(pb_log_for_f32((pb_f64)x) * 0.4342944819032518);
    PB_LOG_EDGES(f32, x, y);
}

/* exp(x) / 2, which overflows later than exp does */
PB_INLINE pb_f32 pb_half_exp_f32(pb_f32 x) {
    pb_f32 shifted = PB_FMA_f32(x, 1.44269504f, PB_WIDE_f32), n = shifted - PB_WIDE_f32;
    pb_f32 r = PB_FMA_f32(n, 2.12194440e-4f, PB_FMA_f32(n, -0.693359375f, x));
    PB_SCALED(f32, 32, 1.0f + pb_expm1_core_f32(r), shifted - 1.0f, x, -105.0f, 90.0f);
}
PB_INLINE pb_f64 pb_half_exp_f64(pb_f64 x) {
    pb_f64 shifted = PB_FMA_f64(x, 1.4426950408889634, PB_WIDE_f64), n = shifted - PB_WIDE_f64;
    pb_f64 r = PB_FMA_f64(n, -1.90821492927058770002e-10, PB_FMA_f64(n, -6.93147180369123816490e-01, x));
    PB_SCALED(f64, 64, 1.0 + pb_expm1_core_f64(r), shifted - 1.0, x, -746.0, 711.0);
}
#define PB_HYPERBOLIC(T, S)                                                                                             \
    PB_INLINE pb_##T pb_cosh_##T(pb_##T x) {                                                                            \
        pb_##T e = pb_half_exp_##T(__builtin_fabs##S(x));                                                               \
        return e + (pb_##T)0.25 / e;                                                                                    \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_sinh_##T(pb_##T x) { /* near 0 by expm1, else nothing cancels */                                \
        pb_##T a = __builtin_fabs##S(x), e = pb_half_exp_##T(a), t = pb_expm1_mid_##T(a > 1 ? (pb_##T)1 : a);           \
        pb_##T near = (t + t / (t + 1)) * (pb_##T)0.5, far = e - (pb_##T)0.25 / e;                                      \
        return __builtin_copysign##S(a > 1 ? far : near, x);                                                            \
    }
PB_HYPERBOLIC(f32, f)
PB_HYPERBOLIC(f64, )
