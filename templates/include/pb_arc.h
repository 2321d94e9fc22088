/* Inverse trigonometric functions of pb_scalar.h without branches, at most 2.5 ULP: arctan arctan2 arcsin arccos.
 *
 * The polynomials are minimax fits of (f(t) / t - 1) / t**2 in t**2. Included by pb_math.h alone.
 */

/* arctan(t) - t for |t| <= tan(pi / 8) */
PB_INLINE pb_f64 pb_arctan_rest_f64(pb_f64 t) {
    pb_f64 z = t * t, p = 0.015195502501454777;
    p = PB_FMA_f64(p, z, -0.033474827077372);
    p = PB_FMA_f64(p, z, 0.045035664810155654);
    p = PB_FMA_f64(p, z, -0.052184088752764);
    p = PB_FMA_f64(p, z, 0.05877022542345812);
    p = PB_FMA_f64(p, z, -0.06666226838527332);
    p = PB_FMA_f64(p, z, 0.07692282764538899);
    p = PB_FMA_f64(p, z, -0.09090908144807693);
    p = PB_FMA_f64(p, z, 0.11111111088186162);
    p = PB_FMA_f64(p, z, -0.14285714285388154);
    p = PB_FMA_f64(p, z, 0.1999999999999767);
    p = PB_FMA_f64(p, z, -0.33333333333333326);
    return p * z * t;
}
PB_INLINE pb_f32 pb_arctan_rest_f32(pb_f32 t) {
    pb_f32 z = t * t, p = -0.060811545699834824f;
    p = PB_FMA_f32(p, z, 0.10595139861106873f);
    p = PB_FMA_f32(p, z, -0.1424373835325241f);
    p = PB_FMA_f32(p, z, 0.1999848335981369f);
    p = PB_FMA_f32(p, z, -0.33333316445350647f);
    return p * z * t;
}

/* arcsin(s) - s for s * s = z <= 1/4 */
PB_INLINE pb_f64 pb_arcsin_rest_f64(pb_f64 s, pb_f64 z) {
    pb_f64 p = 0.03270249233301774;
    p = PB_FMA_f64(p, z, -0.02111731252136152);
    p = PB_FMA_f64(p, z, 0.021791118475244488);
    p = PB_FMA_f64(p, z, 0.003671966961857728);
    p = PB_FMA_f64(p, z, 0.010789386278638572);
    p = PB_FMA_f64(p, z, 0.011397279924076359);
    p = PB_FMA_f64(p, z, 0.013981020348729646);
    p = PB_FMA_f64(p, z, 0.01735159532923641);
    p = PB_FMA_f64(p, z, 0.02237221591662269);
    p = PB_FMA_f64(p, z, 0.030381942674852894);
    p = PB_FMA_f64(p, z, 0.044642857175295945);
    p = PB_FMA_f64(p, z, 0.07499999999970088);
    p = PB_FMA_f64(p, z, 0.16666666666666763);
    return p * z * s;
}
PB_INLINE pb_f32 pb_arcsin_rest_f32(pb_f32 s, pb_f32 z) {
    pb_f32 p = 0.03757821023464203f;
    p = PB_FMA_f32(p, z, 0.014393755234777927f);
    p = PB_FMA_f32(p, z, 0.03181983530521393f);
    p = PB_FMA_f32(p, z, 0.044515468180179596f);
    p = PB_FMA_f32(p, z, 0.07500512152910233f);
    p = PB_FMA_f32(p, z, 0.16666659712791443f);
    return p * z * s;
}

#define PB_QUARTER_f32 0x1.921fb6p-1f       /* pi / 4, and what is missing */
#define PB_QUARTER_REST_f32 -0x1.777a5cp-26f
#define PB_QUARTER_f64 0x1.921fb54442d18p-1
#define PB_QUARTER_REST_f64 0x1.1a62633145c07p-55
#define PB_HUGE_f32 0x1p120f /* beyond, a sum of two might overflow */
#define PB_HUGE_f64 0x1p1000

/* With a quarter of pi taken off where that is nearer: arctan(low / high) = arctan((low - high) / (low + high)) + pi / 4; then half
 * a turn and the second half are mirrored: `turns` counts quarters of pi. A NaN is put in last. */
#define PB_ARC(T, S)                                                                                                    \
    PB_INLINE pb_##T pb_arctan_##T(pb_##T x) {                                                                          \
        pb_##T a = __builtin_fabs##S(x);                                                                                \
        pb_##T over = a > (pb_##T)0.41421356237309503 ? a - 1 : a, under = a > (pb_##T)0.41421356237309503 ? a + 1 : 1; \
        pb_##T turns = a > (pb_##T)0.41421356237309503 ? (pb_##T)1 : (pb_##T)0;                                         \
        over = a > (pb_##T)2.414213562373095 ? -1 : over, under = a > (pb_##T)2.414213562373095 ? a : under;            \
        turns = a > (pb_##T)2.414213562373095 ? (pb_##T)2 : turns;                                                      \
        pb_##T t = over / under, rest = turns * PB_QUARTER_REST_##T + pb_arctan_rest_##T(t);                            \
        return __builtin_copysign##S(turns * PB_QUARTER_##T + (rest + t), x);                                           \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_arctan2_##T(pb_##T y, pb_##T x) {                                                               \
        pb_##T a = __builtin_fabs##S(y), b = __builtin_fabs##S(x);                                                      \
        pb_##T high = a > b ? a : b, low = a > b ? b : a;                                                               \
        pb_##T scale = high > PB_HUGE_##T ? (pb_##T)0x1p-10 : (pb_##T)1;                                                \
        low = high == PB_INF_##T ? (low == PB_INF_##T ? (pb_##T)1 : (pb_##T)0) : low * scale;                           \
        high = high == PB_INF_##T ? (pb_##T)1 : high * scale;                                                           \
        high = high == 0 ? (pb_##T)1 : high;                                                                            \
        pb_##T near = low > high * (pb_##T)0.41421356237309503 ? (pb_##T)1 : (pb_##T)0;                                 \
        pb_##T t = (low - near * high) / (high + near * low), turns = near;                                             \
        t = a > b ? -t : t, turns = a > b ? 2 - turns : turns;                                                          \
        pb_##T left = __builtin_copysign##S((pb_##T)1, x);                                                              \
        t = t * left, turns = left < 0 ? 4 - turns : turns;                                                             \
        pb_##T rest = turns * PB_QUARTER_REST_##T + pb_arctan_rest_##T(t);                                              \
        pb_##T r = __builtin_copysign##S(turns * PB_QUARTER_##T + (rest + t), y);                                       \
        return ((x != x) | (y != y)) ? x + y : r;                                                                       \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_arcsin_##T(pb_##T x) {                                                                          \
        pb_##T a = __builtin_fabs##S(x), half = (pb_##T)0.5 - (pb_##T)0.5 * a;                                          \
        pb_##T z = a > (pb_##T)0.5 ? half : a * a, root = __builtin_sqrt##S(half);                                      \
        pb_##T s = a > (pb_##T)0.5 ? root : a, rest = pb_arcsin_rest_##T(s, z);                                         \
        pb_##T far = PB_QUARTER_##T - ((rest + rest) - PB_QUARTER_REST_##T * 2 + (s + s - PB_QUARTER_##T));             \
        return __builtin_copysign##S(a > (pb_##T)0.5 ? far : s + rest, x);                                              \
    }                                                                                                                   \
    PB_INLINE pb_##T pb_arccos_##T(pb_##T x) {                                                                          \
        pb_##T a = __builtin_fabs##S(x), half = (pb_##T)0.5 - (pb_##T)0.5 * a;                                          \
        pb_##T z = a > (pb_##T)0.5 ? half : a * a, root = __builtin_sqrt##S(half);                                      \
        pb_##T s = a > (pb_##T)0.5 ? root : x, rest = pb_arcsin_rest_##T(s, z);                                         \
        pb_##T near = (rest + s) + (rest + s), left = PB_QUARTER_##T * 4 - (near - PB_QUARTER_REST_##T * 4);            \
        pb_##T middle = PB_QUARTER_##T * 2 - (s + (rest - PB_QUARTER_REST_##T * 2));                                    \
        return a > (pb_##T)0.5 ? (x < 0 ? left : near) : middle;                                                        \
    }
PB_ARC(f32, f)
PB_ARC(f64, )
