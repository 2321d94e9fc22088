/* sin, cos and tan of f32 and f64, at most 2.5 ULP (tan 4): Cody and Waite's reduction and a polynomial. Huge arguments are libm's:
 * pb_guarded.h tells how. Included by pb_math.h alone.
 */

/* x - q * pi / 2 for |x| up to PB_TRIG_LIMIT. Fused: the first step is exact where it cancels, three parts are enough. Else the
 * parts have 33 bits, which products with q keep. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define PB_TRIG_LIMIT_f64 1e13
#define PB_TRIG_LIMIT_f32 65536.0f
PB_INLINE pb_f64 pb_less_quarters_f64(pb_f64 x, pb_f64 q) {
    pb_f64 r = PB_FMA_f64(q, -0x1.921fb54442d18p+0, x);
    r = PB_FMA_f64(q, -0x1.1a62633145c07p-54, r);
    return PB_FMA_f64(q, 0x1.f1976b8p-110, r);
}
PB_INLINE pb_f32 pb_less_quarters_f32(pb_f32 x, pb_f32 q) {
    pb_f32 r = PB_FMA_f32(q, -0x1.921fb6p+0f, x);
    r = PB_FMA_f32(q, 0x1.777a5cp-25f, r);
    return PB_FMA_f32(q, 0x1.ee59dap-50f, r);
}
#else
#define PB_TRIG_LIMIT_f64 1e6
#define PB_TRIG_LIMIT_f32 65536.0f
PB_INLINE pb_f64 pb_less_quarters_f64(pb_f64 x, pb_f64 q) {
    pb_f64 r = x - q * 0x1.921fb544p+0;
    r = r - q * 0x1.0b4611a6p-34;
    r = r - q * 0x1.3198a2ep-69;
    return r - q * 0x1.b839a252p-104;
}
PB_INLINE pb_f32 pb_less_quarters_f32(pb_f32 x, pb_f32 q) {
    pb_f64 r = (pb_f64)x - (pb_f64)q * 0x1.921fb544p+0;
    return (pb_f32)(r - (pb_f64)q * 0x1.0b4611a6263p-34);
}
#endif

/* sin(r) for |r| <= pi / 2, and a little more: minimax fits of (sin(r) / r - 1) / r**2, as below */
PB_INLINE pb_f64 pb_sin_core_f64(pb_f64 r) {
    pb_f64 z = r * r, p = 2.7220928179765772e-15;
    p = PB_FMA_f64(p, z, -7.643082841459576e-13);
    p = PB_FMA_f64(p, z, 1.6058943390968677e-10);
    p = PB_FMA_f64(p, z, -2.5052106949913055e-08);
    p = PB_FMA_f64(p, z, 2.755731921202511e-06);
    p = PB_FMA_f64(p, z, -0.00019841269841214696);
    p = PB_FMA_f64(p, z, 0.00833333333333321);
    p = PB_FMA_f64(p, z, -0.16666666666666666);
    return PB_FMA_f64(p * z, r, r);
}
PB_INLINE pb_f32 pb_sin_core_f32(pb_f32 r) {
    pb_f32 z = r * r, p = -2.3907352542096305e-08f;
    p = PB_FMA_f32(p, z, 2.7526518806553213e-06f);
    p = PB_FMA_f32(p, z, -0.00019840891764033586f);
    p = PB_FMA_f32(p, z, 0.008333330973982811f);
    p = PB_FMA_f32(p, z, -0.1666666716337204f);
    return PB_FMA_f32(p * z, r, r);
}

/* sin(r) and cos(r) for |r| <= pi / 4 */
PB_INLINE void pb_sincos_core_f64(pb_f64 r, pb_f64 *sine, pb_f64 *cosine) {
    pb_f64 z = r * r, p = 1.5896505144027568e-10, c = -1.1359448972656025e-11;
    p = PB_FMA_f64(p, z, -2.505075326798432e-08);
    p = PB_FMA_f64(p, z, 2.7557313662077965e-06);
    p = PB_FMA_f64(p, z, -0.0001984126982972525);
    p = PB_FMA_f64(p, z, 0.008333333333322316);
    p = PB_FMA_f64(p, z, -0.16666666666666632);
    c = PB_FMA_f64(c, z, 2.0875719564688728e-09);
    c = PB_FMA_f64(c, z, -2.75573143260766e-07);
    c = PB_FMA_f64(c, z, 2.480158728939509e-05);
    c = PB_FMA_f64(c, z, -0.001388888888887399);
    c = PB_FMA_f64(c, z, 0.0416666666666666);
    *sine = PB_FMA_f64(p * z, r, r);
    *cosine = PB_FMA_f64(c * z, z, PB_FMA_f64(-0.5, z, 1.0));
}
PB_INLINE void pb_sincos_core_f32(pb_f32 r, pb_f32 *sine, pb_f32 *cosine) {
    pb_f32 z = r * r, p = -0.00019516654720064253f, c = 2.4437749743810855e-05f;
    p = PB_FMA_f32(p, z, 0.008332173340022564f);
    p = PB_FMA_f32(p, z, -0.16666655242443085f);
    c = PB_FMA_f32(c, z, -0.001388736185617745f);
    c = PB_FMA_f32(c, z, 0.04166664555668831f);
    *sine = PB_FMA_f32(p * z, r, r);
    *cosine = PB_FMA_f32(c * z, z, PB_FMA_f32(-0.5f, z, 1.0f));
}

#define PB_IS_HUGE(T, S, x) ((__builtin_fabs##S(x) > PB_TRIG_LIMIT_##T) & (__builtin_fabs##S(x) < PB_INF_##T))

/* Quick forms. n halves of a turn are taken off, each changes the sign; cos(x) = sin(x + pi / 2). -0.0 stays, for sin and tan. */
#define PB_QUICK_TRIG(T, S, SIGN_SHIFT)                                                                                 \
    PB_INLINE pb_##T pb_quick_sin_##T(pb_##T x, pb_##T *doubt) {                                                        \
        *doubt = PB_IS_HUGE(T, S, x) ? (pb_##T)1 : (pb_##T)0;                                                           \
        pb_##T shifted = PB_FMA_##T(x, (pb_##T)0.3183098861837907, PB_MAGIC_##T), n = shifted - PB_MAGIC_##T;           \
        pb_##T y = pb_sin_core_##T(pb_less_quarters_##T(x, n + n));                                                     \
        pb_##T r = pb_from_bits_##T(pb_bits_##T(y) ^ pb_bits_##T(shifted) << SIGN_SHIFT);                               \
        return x == 0 ? x : r;                                                                                          \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_quick_cos_##T(pb_##T x, pb_##T *doubt) {                                                        \
        *doubt = PB_IS_HUGE(T, S, x) ? (pb_##T)1 : (pb_##T)0;                                                           \
        pb_##T shifted = PB_FMA_##T(x, (pb_##T)0.3183098861837907, (pb_##T)-0.5) + PB_MAGIC_##T;                        \
        pb_##T n = shifted - PB_MAGIC_##T, y = pb_sin_core_##T(pb_less_quarters_##T(x, n + n + 1));                     \
        return pb_from_bits_##T(pb_bits_##T(-y) ^ pb_bits_##T(shifted) << SIGN_SHIFT);                                  \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_quick_tan_##T(pb_##T x, pb_##T *doubt) {                                                        \
        *doubt = PB_IS_HUGE(T, S, x) ? (pb_##T)1 : (pb_##T)0;                                                           \
        pb_##T q = PB_FMA_##T(x, (pb_##T)0.6366197723675814, PB_MAGIC_##T) - PB_MAGIC_##T, s, c;                        \
        pb_##T even = (q * (pb_##T)0.5 + PB_MAGIC_##T) - PB_MAGIC_##T;                                                  \
        pb_sincos_core_##T(pb_less_quarters_##T(x, q), &s, &c);                                                         \
        pb_##T over = even + even == q ? s : -c, under = even + even == q ? c : s, r = over / under;                    \
        return x == 0 ? x : r;                                                                                          \
    }
PB_QUICK_TRIG(f32, f, 31)
PB_QUICK_TRIG(f64, , 63)

#if !defined(PB_ONLY_USED) || defined(PB_USE_sin)
PB_GUARDED1(sin, __builtin_sin)
#endif
#if !defined(PB_ONLY_USED) || defined(PB_USE_cos)
PB_GUARDED1(cos, __builtin_cos)
#endif
#if !defined(PB_ONLY_USED) || defined(PB_USE_tan)
PB_GUARDED1(tan, __builtin_tan)
#endif
