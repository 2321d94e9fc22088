/* Transcendental functions of pb_scalar.h, for f32 and f64, written without branches so that loops over them vectorise.
 *
 * Ours, at most 4 ULP (tests/test_scalars.py measures it): here exp exp2 expm1 log log2 log1p tanh erf hypot; pow log10 sinh cosh in
 * pb_power.h; arctan arctan2 arcsin arccos in pb_arc.h; sin cos tan in pb_trig.h. Of these pow, sin, cos and tan leave rare
 * elements to libm, see pb_guarded.h. libm, one call for each element: cbrt arcsinh arccosh arctanh; pow and log10 of f64
 * where there is no fused multiply-add; logaddexp branches. Included by pb_scalar.h alone.
 * exp and tanh of f32 stand in pb_exp.h, which pb_vector.h reads again for vectors.
 * Source: coefficients of f32 expm1 and log from Cephes (S. Moshier), of f64 log from fdlibm (Sun Microsystems); minimax fits else.
 */

/* x + MAGIC is rounded to an integer, which its low mantissa bits hold. */
#define PB_MAGIC_f32 12582912.0f           /* 1.5 * 2**23 */
#define PB_MAGIC_f64 6755399441055744.0    /* 1.5 * 2**52 */

/* exp(r) - 1 for |r| <= ln(2) / 2 */
PB_INLINE pb_f32 pb_expm1_core_f32(pb_f32 r) { /* pairs of terms: a shorter chain than Horner's */
    pb_f32 r2 = r * r;
    pb_f32 high = PB_FMA_f32(1.9875691500e-4f, r, 1.3981999507e-3f);
    pb_f32 mid = PB_FMA_f32(8.3334519073e-3f, r, 4.1665795894e-2f);
    pb_f32 low = PB_FMA_f32(1.6666665459e-1f, r, 5.0000001201e-1f);
    return PB_FMA_f32(PB_FMA_f32(PB_FMA_f32(high, r2, mid), r2, low), r2, r);
}

/* exp(r) - 1 - r: Taylor to r**13, the rest is below 4e-18 */
PB_INLINE pb_f64 pb_expm1_rest_f64(pb_f64 r) {
    pb_f64 r2 = r * r, r4 = r2 * r2;
    pb_f64 a = PB_FMA_f64(1.6059043836821613e-10, r, 2.08767569878681e-09);
    pb_f64 b = PB_FMA_f64(2.505210838544172e-08, r, 2.755731922398589e-07);
    pb_f64 c = PB_FMA_f64(2.7557319223985893e-06, r, 2.48015873015873e-05);
    pb_f64 d = PB_FMA_f64(0.0001984126984126984, r, 0.001388888888888889);
    pb_f64 e = PB_FMA_f64(0.008333333333333333, r, 0.041666666666666664);
    pb_f64 f = PB_FMA_f64(0.16666666666666666, r, 0.5);
    pb_f64 ab = PB_FMA_f64(a, r2, b), cd = PB_FMA_f64(c, r2, d), ef = PB_FMA_f64(e, r2, f);
    return PB_FMA_f64(PB_FMA_f64(ab, r4, cd), r4, ef) * r2;
}
PB_INLINE pb_f64 pb_expm1_core_f64(pb_f64 r) { return pb_expm1_rest_f64(r) + r; }

/* 2**n for n in [-126, 127] ([-1022, 1023]), given n + BIASED: the low mantissa bits hold n plus the exponent's bias. */
#define PB_BIASED_f32 (PB_MAGIC_f32 + 127.0f)
#define PB_BIASED_f64 (PB_MAGIC_f64 + 1023.0)
PB_INLINE pb_f32 pb_scale_f32(pb_f32 shifted) { return pb_from_bits_f32(pb_bits_f32(shifted) << 23); }
PB_INLINE pb_f64 pb_scale_f64(pb_f64 shifted) { return pb_from_bits_f64(pb_bits_f64(shifted) << 52); }

/* The same with twice the bias, for n that leave the exponents' range. */
#define PB_WIDE_f32 (PB_MAGIC_f32 + 254.0f)
#define PB_WIDE_f64 (PB_MAGIC_f64 + 2046.0)

/* p * 2**n, given n + WIDE, by two factors, so that results may be subnormal; NaN stays, since it is multiplied. For x outside
 * [lo, hi] the factors are nonsense: the answer is put in afterwards, off the critical path. */
#define PB_SCALED(T, bits, p, shifted, x, lo, hi)                                                                       \
    uint##bits##_t whole = pb_bits_##T(shifted), half = whole >> 1;                                                     \
    pb_##T y = (p) * pb_from_bits_##T(half << PB_MANTISSA_##T) * pb_from_bits_##T((whole - half) << PB_MANTISSA_##T);   \
    y = (x) > (hi) ? PB_INF_##T : y;                                                                                    \
    return (x) < (lo) ? 0 : y
#define PB_MANTISSA_f32 23
#define PB_MANTISSA_f64 52

/* x into [lo, hi], NaN kept */
#define PB_CLAMP(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))

PB_INLINE pb_f32 pb_lesser_f32(pb_f32 a, pb_f32 b) { return a < b ? a : b; }
PB_INLINE pb_f32 pb_greater_f32(pb_f32 a, pb_f32 b) { return a > b ? a : b; }
#define PB_F(name) pb_##name##_f32
#define PB_T pb_f32
#define PB_C(c) (c)
#define PB_FMA PB_FMA_f32
#define PB_LESSER pb_lesser_f32
#define PB_GREATER pb_greater_f32
#define PB_SHIFTED(x, n) pb_from_bits_f32(pb_bits_f32(x) << (n))
#define PB_MASKED(x, bits) pb_from_bits_f32(pb_bits_f32(x) & (bits))
#define PB_WITH(x, y) pb_from_bits_f32(pb_bits_f32(x) | pb_bits_f32(y))
#include "pb_exp.h"

PB_INLINE pb_f64 pb_exp_f64(pb_f64 x) {
    pb_f64 shifted = PB_FMA_f64(x, 1.4426950408889634, PB_WIDE_f64), n = shifted - PB_WIDE_f64;
    pb_f64 r = PB_FMA_f64(n, -1.90821492927058770002e-10, PB_FMA_f64(n, -6.93147180369123816490e-01, x));
    PB_SCALED(f64, 64, 1.0 + pb_expm1_core_f64(r), shifted, x, -746.0, 710.0);
}

PB_INLINE pb_f32 pb_exp2_f32(pb_f32 x) {
    pb_f32 shifted = x + PB_WIDE_f32, r = (x - (shifted - PB_WIDE_f32)) * 0.693147182f;
    PB_SCALED(f32, 32, 1.0f + pb_expm1_core_f32(r), shifted, x, -151.0f, 129.0f);
}

PB_INLINE pb_f64 pb_exp2_f64(pb_f64 x) {
    pb_f64 shifted = x + PB_WIDE_f64, r = (x - (shifted - PB_WIDE_f64)) * 0.6931471805599453;
    PB_SCALED(f64, 64, 1.0 + pb_expm1_core_f64(r), shifted, x, -1076.0, 1025.0);
}

/* expm1 where exp does not overflow in one step: x in [-40, 80] (f64 [-40, 700]) */
PB_INLINE pb_f32 pb_expm1_mid_f32(pb_f32 x) {
    pb_f32 shifted = PB_FMA_f32(x, 1.44269504f, PB_BIASED_f32), n = shifted - PB_BIASED_f32;
    pb_f32 r = PB_FMA_f32(n, -0.693359375f, x), s = pb_scale_f32(shifted);
    r = PB_FMA_f32(n, 2.12194440e-4f, r);
    return PB_FMA_f32(s, pb_expm1_core_f32(r), s - 1.0f);
}

PB_INLINE pb_f64 pb_expm1_mid_f64(pb_f64 x) {
    pb_f64 shifted = PB_FMA_f64(x, 1.4426950408889634, PB_BIASED_f64), n = shifted - PB_BIASED_f64;
    pb_f64 r = PB_FMA_f64(n, -6.93147180369123816490e-01, x), s = pb_scale_f64(shifted);
    r = PB_FMA_f64(n, -1.90821492927058770002e-10, r);
    return PB_FMA_f64(s, pb_expm1_core_f64(r), s - 1.0);
}

PB_INLINE pb_f32 pb_expm1_f32(pb_f32 x) {
    pb_f32 mid = pb_expm1_mid_f32(PB_CLAMP(x, -40.0f, 80.0f)), large = pb_exp_f32(x);
    pb_f32 y = x > 80.0f ? large : mid;
    return x == 0 ? x : y;
}

PB_INLINE pb_f64 pb_expm1_f64(pb_f64 x) {
    pb_f64 mid = pb_expm1_mid_f64(PB_CLAMP(x, -40.0, 700.0)), large = pb_exp_f64(x);
    pb_f64 y = x > 700.0 ? large : mid;
    return x == 0 ? x : y;
}

PB_INLINE pb_f64 pb_tanh_f64(pb_f64 x) {
    pb_f64 a = __builtin_fabs(x);
    a = a > 22.0 ? 22.0 : a;
    pb_f64 t = pb_expm1_mid_f64(a + a);
    return __builtin_copysign(t / (t + 2.0), x);
}

/* sqrt(a * a + b * b) in double: no square of a float leaves its range. */
PB_INLINE pb_f32 pb_hypot_f32(pb_f32 a, pb_f32 b) {
    pb_f64 x = a, y = b;
    pb_f32 h = (pb_f32)__builtin_sqrt(x * x + y * y);
    return ((__builtin_fabsf(a) == PB_INF_f32) | (__builtin_fabsf(b) == PB_INF_f32)) ? PB_INF_f32 : h;
}

/* Both sides scaled by the power of two of the longer one, so that nothing leaves the range: the squares, their sum and the
 * root are rounded, which is 1 ULP. (Correcting the root once, as glibc does, takes twice as long.) */
PB_INLINE pb_f64 pb_hypot_f64(pb_f64 a, pb_f64 b) {
    const uint64_t exponent = 0x7ff0000000000000u;
    a = __builtin_fabs(a), b = __builtin_fabs(b);
    pb_f64 longer = a > b ? a : b, shorter = a > b ? b : a;
    pb_f64 bounded = longer < 0x1p-1022 ? 0x1p-1022 : longer > 0x1p1022 ? 0x1p1022 : longer;
    uint64_t power = pb_bits_f64(bounded) & exponent;
    pb_f64 scale = pb_from_bits_f64(0x7fe0000000000000u - power), x = longer * scale, y = shorter * scale;
    pb_f64 h = __builtin_sqrt(x * x + y * y) * pb_from_bits_f64(power);
    return ((a == PB_INF_f64) | (b == PB_INF_f64)) ? PB_INF_f64 : h;
}

/* 1 - exp(a polynomial) from 59/64 on, below it an odd polynomial: both minimax fits, to log(erfc(x)) / x and erf(x) / x - 1 */
PB_INLINE pb_f64 pb_erf_f64(pb_f64 x) {
    pb_f64 a = __builtin_fabs(x), z = x * x;
    pb_f64 t = a > 5.95 ? 5.95 : a;
    pb_f64 p = -8.329296176897447e-10;
    p = PB_FMA_f64(p, z, 1.3979238107714887e-08);
    p = PB_FMA_f64(p, z, -1.626286131047166e-07);
    p = PB_FMA_f64(p, z, 1.6453870193349903e-06);
    p = PB_FMA_f64(p, z, -1.4925211028450326e-05);
    p = PB_FMA_f64(p, z, 0.00012055317287870785);
    p = PB_FMA_f64(p, z, -0.000854832665311562);
    p = PB_FMA_f64(p, z, 0.005223977619886581);
    p = PB_FMA_f64(p, z, -0.02686617064463824);
    p = PB_FMA_f64(p, z, 0.1128379167095286);
    p = PB_FMA_f64(p, z, -0.3761263890318371);
    p = PB_FMA_f64(p, z, 0.1283791670955126);
    pb_f64 small = PB_FMA_f64(p, x, x);
    pb_f64 q = 1.7226777533020036e-12;
    q = PB_FMA_f64(q, t, -7.549135542952167e-11);
    q = PB_FMA_f64(q, t, 1.549592959146743e-09);
    q = PB_FMA_f64(q, t, -1.97886006735513e-08);
    q = PB_FMA_f64(q, t, 1.7590094898783714e-07);
    q = PB_FMA_f64(q, t, -1.1513104131957015e-06);
    q = PB_FMA_f64(q, t, 5.700344993152857e-06);
    q = PB_FMA_f64(q, t, -2.1401278801035583e-05);
    q = PB_FMA_f64(q, t, 5.877927858266221e-05);
    q = PB_FMA_f64(q, t, -0.00010112400695801151);
    q = PB_FMA_f64(q, t, 1.01120901798013e-05);
    q = PB_FMA_f64(q, t, 0.0005630543201629962);
    q = PB_FMA_f64(q, t, -0.0016812003840253533);
    q = PB_FMA_f64(q, t, 0.00020353743688731682);
    q = PB_FMA_f64(q, t, 0.019129599774069053);
    q = PB_FMA_f64(q, t, -0.10277257102586031);
    q = PB_FMA_f64(q, t, -0.6366198484224712);
    q = PB_FMA_f64(q, t, -1.1283791543377668);
    pb_f64 large = __builtin_copysign(-pb_expm1_mid_f64(q * t), x);
    return a < 0.921875 ? small : large;
}

/* x = 2**k * m with m in [sqrt(1/2), sqrt(2)), for x positive and finite: log(m), and k through the pointer */
PB_INLINE pb_f32 pb_log_core_f32(pb_f32 x, pb_f32 *k) {
    int tiny = x < 0x1p-126f;
    pb_f32 scaled = x * 0x1p25f;
    pb_u32 u = pb_bits_f32(tiny ? scaled : x) + (0x3f800000u - 0x3f3504f3u);
    *k = (pb_f32)((pb_i32)(u >> 23) - 127) - (tiny ? 25.0f : 0.0f);
    pb_f32 f = pb_from_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f, z = f * f;
    pb_f32 p = 7.0376836292e-2f;
    p = PB_FMA_f32(p, f, -1.1514610310e-1f);
    p = PB_FMA_f32(p, f, 1.1676998740e-1f);
    p = PB_FMA_f32(p, f, -1.2420140846e-1f);
    p = PB_FMA_f32(p, f, 1.4249322787e-1f);
    p = PB_FMA_f32(p, f, -1.6668057665e-1f);
    p = PB_FMA_f32(p, f, 2.0000714765e-1f);
    p = PB_FMA_f32(p, f, -2.4999993993e-1f);
    p = PB_FMA_f32(p, f, 3.3333331174e-1f);
    return PB_FMA_f32(-0.5f, z, p * f * z) + f;
}

/* log(m) as f - rest, so that k * ln2 can be added to the small part first */
PB_INLINE pb_f64 pb_log_core_f64(pb_f64 x, pb_f64 *k, pb_f64 *rest) {
    int tiny = x < 0x1p-1022;
    pb_f64 scaled = x * 0x1p54;
    uint64_t u = pb_bits_f64(tiny ? scaled : x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    *k = pb_from_bits_f64(0x4330000000000000u | (u >> 52)) - (4503599627370496.0 + 1023.0) - (tiny ? 54.0 : 0.0);
    pb_f64 f = pb_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    pb_f64 half = 0.5 * f * f, s = f / (2.0 + f), z = s * s, w = z * z;
    pb_f64 a = 1.531383769920937332e-01, b = 1.479819860511658591e-01;
    a = PB_FMA_f64(a, w, 2.222219843214978396e-01);
    a = PB_FMA_f64(a, w, 3.999999999940941908e-01);
    b = PB_FMA_f64(b, w, 1.818357216161805012e-01);
    b = PB_FMA_f64(b, w, 2.857142874366239149e-01);
    b = PB_FMA_f64(b, w, 6.666666666666735130e-01);
    *rest = half - s * (half + (a * w + b * z));
    return f;
}

/* NaN below 0, -inf at 0, x at +inf and NaN; y elsewhere */
#define PB_LOG_EDGES(T, x, y)                                                                                           \
    y = (x) < PB_INF_##T ? y : (x);                                                                                     \
    y = (x) < 0 ? PB_NAN_##T : y;                                                                                       \
    return (x) == 0 ? -PB_INF_##T : y

PB_INLINE pb_f32 pb_log_f32(pb_f32 x) {
    pb_f32 k, m = pb_log_core_f32(x, &k);
    pb_f32 y = PB_FMA_f32(k, -2.12194440e-4f, m);
    y = PB_FMA_f32(k, 0.693359375f, y);
    PB_LOG_EDGES(f32, x, y);
}

PB_INLINE pb_f64 pb_log_f64(pb_f64 x) {
    pb_f64 k, rest, f = pb_log_core_f64(x, &k, &rest);
    pb_f64 y = PB_FMA_f64(k, 6.93147180369123816490e-01, f - (rest - k * 1.90821492927058770002e-10));
    PB_LOG_EDGES(f64, x, y);
}

PB_INLINE pb_f32 pb_log2_f32(pb_f32 x) { /* exact at powers of two: then log(m) is 0 */
    pb_f32 k, m = pb_log_core_f32(x, &k);
    pb_f32 y = PB_FMA_f32(m, 1.44269504f, k);
    PB_LOG_EDGES(f32, x, y);
}

PB_INLINE pb_f64 pb_log2_f64(pb_f64 x) {
    pb_f64 k, rest, f = pb_log_core_f64(x, &k, &rest);
    pb_f64 m = f - rest, y = PB_FMA_f64(m, 1.4426950408889634, k);
    PB_LOG_EDGES(f64, x, y);
}

/* log(1 + x) plus what the rounding of 1 + x lost */
#define PB_LOG1P(T)                                                                                                     \
    PB_INLINE pb_##T pb_log1p_##T(pb_##T x) {                                                                           \
        pb_##T u = (pb_##T)1 + x, lost = x - (u - (pb_##T)1), y = pb_log_##T(u);                                        \
        pb_##T corrected = y + lost / u;                                                                                \
        int plain = (u == 0) | (u == PB_INF_##T);                                                                       \
        pb_##T r = plain ? y : corrected;                                                                               \
        return x == 0 ? x : r;                                                                                          \
    }
PB_LOG1P(f32)
PB_LOG1P(f64)


#define PB_LIBM(T, S)                                                                                                   \
    PB_INLINE pb_##T pb_cbrt_##T(pb_##T x) { return __builtin_cbrt##S(x); }                                             \
    PB_INLINE pb_##T pb_arcsinh_##T(pb_##T x) { return __builtin_asinh##S(x); }                                         \
    PB_INLINE pb_##T pb_arccosh_##T(pb_##T x) { return __builtin_acosh##S(x); }                                         \
    PB_INLINE pb_##T pb_arctanh_##T(pb_##T x) { return __builtin_atanh##S(x); }                                         \
    PB_INLINE pb_##T pb_logaddexp_##T(pb_##T a, pb_##T b) { /* NumPy's npy_logaddexp */                                 \
        if (a == b) return a + (pb_##T)0.693147180559945309417232121458176568;                                          \
        pb_##T d = a - b;                                                                                               \
        if (d > 0) return a + __builtin_log1p##S(__builtin_exp##S(-d));                                                 \
        if (d <= 0) return b + __builtin_log1p##S(__builtin_exp##S(d));                                                 \
        return d;                                                                                                       \
    }
PB_LIBM(f32, f)
PB_LIBM(f64, )

#include "pb_guarded.h"
#include "pb_power.h"
#include "pb_arc.h"
#include "pb_trig.h"
