// Tabulates minimax polynomials for the vector math functions, lowest power first; minimax.py writes them.
#pragma once

namespace kiln::emit::coefficients {

// e^r = 1 + r + r^2 q(r); relative error 2^-28.3.
inline constexpr double exp_f32[] = {0x1.fffffc0000000p-2, 0x1.5554920000000p-3, 0x1.5558f00000000p-5,
                                     0x1.1239e40000000p-7, 0x1.6a25d00000000p-10};

// e^r = 1 + r + r^2 q(r) between sixteenths of a power of two; relative error 2^-29.2.
inline constexpr double exp_table_f32[] = {0x1.00021e0000000p-1, 0x1.55559a0000000p-3};

// 2^r = 1 + r ln 2 + r^2 q(r) between sixteenths of a power of two; relative error 2^-29.2.
inline constexpr double exp2_table_f32[] = {0x1.ebfff20000000p-3, 0x1.c6b0ea0000000p-5};

// e^r = 1 + r + r^2 q(r) for |r| <= ln 2; relative error 2^-26.1.
inline constexpr double exp_wide_f32[] = {0x1.00000c0000000p-1, 0x1.5555100000000p-3,  0x1.554a060000000p-5,
                                          0x1.1128420000000p-7, 0x1.71bc880000000p-10, 0x1.9b4b160000000p-13};

// 2^r = 1 + r ln 2 + r^2 q(r) for |r| <= 1; relative error 2^-26.1.
inline constexpr double exp2_wide_f32[] = {0x1.ebfbf60000000p-3,  0x1.c6b0300000000p-5,
                                           0x1.3b20460000000p-7,  0x1.5da5ac0000000p-10,
                                           0x1.480bd40000000p-13, 0x1.f9e1fc0000000p-17};

// e^r = 1 + r + r^2 q(r); relative error 2^-57.9.
inline constexpr double exp_f64[] = {0x1.000000000000ap-1,  0x1.55555555554fap-3,  0x1.5555555550879p-5,
                                     0x1.1111111127af5p-7,  0x1.6c16c1842aab4p-10, 0x1.a01a012aaa6f0p-13,
                                     0x1.a0199a0ad0704p-16, 0x1.71df249aba791p-19, 0x1.28ad744252ea3p-22,
                                     0x1.ad808c8faa6cap-26};

// e^r - 1 = r + r^2 q(r); relative error 2^-31.8.
inline constexpr double expm1_f32[] = {0x1.0000000000000p-1, 0x1.5555560000000p-3,  0x1.55549e0000000p-5,
                                       0x1.11101c0000000p-7, 0x1.6d83580000000p-10, 0x1.a2a4a20000000p-13};

// e^r - 1 = r + r^2 q(r); relative error 2^-58.4.
inline constexpr double expm1_f64[] = {0x1.0000000000001p-1,  0x1.5555555555557p-3,  0x1.5555555554d3dp-5,
                                       0x1.11111111100e6p-7,  0x1.6c16c16f0a0bdp-10, 0x1.a01a01abe2fefp-13,
                                       0x1.a019f39772b0bp-16, 0x1.71de023f73a8bp-19, 0x1.28022443148ecp-22,
                                       0x1.af4dcfd60c0a9p-26, 0x1.e631fc1a95a72p-30};

// 2^r = 1 + r q(r); relative error 2^-63.9.
inline constexpr double exp2_f64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d6p-5,
                                      0x1.3b2ab6fba4ea8p-7,  0x1.5d87fe78a130fp-10, 0x1.430912f8598ffp-13,
                                      0x1.ffcbfc7ac29fdp-17, 0x1.62c0229a7114fp-20, 0x1.b524d0ec25dfdp-24,
                                      0x1.e4cd9d66b153cp-28, 0x1.ea14204cefbe2p-32, 0x1.c6d9aa42fe392p-36};

// 2^r = 1 + r q(r), enough for a result rounded to f32; relative error 2^-32.0.
inline constexpr double exp2_single_in_f64[] = {
    0x1.62e4300b9e704p-1,  0x1.ebfbe045708dcp-3,  0x1.c6b0551b173b0p-5, 0x1.3b2a1bf5ae4e7p-7,
    0x1.5dc053af88f7cp-10, 0x1.443f95dd9520ap-13, 0x1.c04555d12736cp-17};

// log(1 + f) = f + f^2 q(f); relative error 2^-27.9.
inline constexpr double log_f32[] = {-0x1.fffff80000000p-2, 0x1.5555500000000p-2,  -0x1.0004300000000p-2,
                                     0x1.99a48c0000000p-3,  -0x1.5425f60000000p-3, 0x1.22642a0000000p-3,
                                     -0x1.0f35b00000000p-3, 0x1.08a3ca0000000p-3,  -0x1.3923bc0000000p-4};

// log2(1 + f) = f / ln 2 + f^2 q(f); relative error 2^-27.9.
inline constexpr double log2_f32[] = {-0x1.7154700000000p-1, 0x1.ec70940000000p-2,  -0x1.715a820000000p-2,
                                      0x1.277eaa0000000p-2,  -0x1.eabaf20000000p-3, 0x1.a2f2300000000p-3,
                                      -0x1.8745de0000000p-3, 0x1.7dcb680000000p-3,  -0x1.c3c3d40000000p-4};

// log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2); relative error 2^-59.5.
inline constexpr double log_f64[] = {0x1.5555555555592p-1, 0x1.999999997fef1p-2, 0x1.24924941e0a70p-2,
                                     0x1.c71c5216316cdp-3, 0x1.74663c60e5daep-3, 0x1.39a1f9a30d548p-3,
                                     0x1.2f02fe948fc30p-3};

// log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2), enough for a result rounded to f32; relative error 2^-52.2.
inline constexpr double log_single_in_f64[] = {0x1.555555555397cp-1, 0x1.999999a28e4d4p-2,
                                               0x1.2492417ab29abp-2, 0x1.c722769268346p-3,
                                               0x1.732c5200da48fp-3, 0x1.58759b1ea6cc9p-3};

// log((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + s^5 q(s^2); relative error 2^-88.0.
inline constexpr double log_tail_f64[] = {0x1.999999999999ap-2, 0x1.2492492492493p-2, 0x1.c71c71c71c5cbp-3,
                                          0x1.745d1745e3ef6p-3, 0x1.3b13b13151bfcp-3, 0x1.1111145befd75p-3,
                                          0x1.e1e06dd126341p-4, 0x1.af5dda2ff1e0ep-4, 0x1.814c9170b6ec2p-4,
                                          0x1.a227da1b3a9fbp-4};

// sin(r) = r + r^3 q(r^2); relative error 2^-27.9.
inline constexpr double sin_f32[] = {-0x1.5555440000000p-3, 0x1.1106d40000000p-7, -0x1.9920c40000000p-13};

// cos(r) = 1 - r^2 / 2 + r^4 q(r^2); relative error 2^-32.9.
inline constexpr double cos_f32[] = {0x1.55554a0000000p-5, -0x1.6c0bc40000000p-10, 0x1.99cb6a0000000p-16};

// sin(r) = r + r^3 q(r^2); relative error 2^-57.7.
inline constexpr double sin_f64[] = {-0x1.5555555555547p-3, 0x1.111111110f52ap-7,   -0x1.a01a019ba6820p-13,
                                     0x1.71de351a0988cp-19, -0x1.ae5e1c4aaf56fp-26, 0x1.5d7d68a46ded6p-33};

// cos(r) = 1 - r^2 / 2 + r^4 q(r^2); relative error 2^-63.7.
inline constexpr double cos_f64[] = {0x1.5555555555549p-5,   -0x1.6c16c16c14c8ap-10, 0x1.a01a019c37477p-16,
                                     -0x1.27e4f7b23abd8p-22, 0x1.1ee9b0b7a482bp-29,  -0x1.8f9025a9cca0ep-37};

// tanh(x) = x + x^3 q(x^2) for |x| <= 0.625; relative error 2^-27.7.
inline constexpr double tanh_f32[] = {-0x1.5555320000000p-2, 0x1.11070a0000000p-3, -0x1.b838560000000p-5,
                                      0x1.520b240000000p-6, -0x1.7561f60000000p-8};

// erf(x) = x + x q(x^2) for |x| <= 1.125; relative error 2^-27.3.
inline constexpr double erf_small_f32[] = {
    0x1.06eba80000000p-3, -0x1.8127260000000p-2,  0x1.ce28a20000000p-4, -0x1.b7b2360000000p-6,
    0x1.51fb600000000p-8, -0x1.961fc20000000p-11, 0x1.263e060000000p-14};

// erf(x) = 1 - e^(-q(x - 2.5)) for 1.125 <= x <= 4; relative error 2^-30.7.
inline constexpr double erf_large_f32[] = {
    0x1.f3a2e20000000p+2,  0x1.56927e0000000p+2,  0x1.e3479c0000000p-1,  0x1.61dd8e0000000p-7,
    -0x1.3383a20000000p-9, 0x1.d3cc4c0000000p-13, -0x1.65cc660000000p-13};

// erf(x) = x + x q(x^2) for |x| <= 1.5; relative error 2^-62.7.
inline constexpr double erf_small_f64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b87p-4,  -0x1.b82ce31287690p-6,
    0x1.565bcd0e42568p-8,  -0x1.c02db3fa683d8p-11, 0x1.f9a32669a5dabp-14, -0x1.f4d252a0447d5p-17,
    0x1.b9e6542560443p-20, -0x1.5f701185696d6p-23, 0x1.fc8f1508c798fp-27, -0x1.50cd8d83f3672p-30,
    0x1.96fc1c0a67b14p-34, -0x1.b1f14cc283b91p-38, 0x1.6cffd50e854b3p-42, -0x1.60878d267c77fp-47};

// erf(x) = 1 - e^(-q(x - 3)) for 1.5 <= x <= 6; relative error 2^-63.3.
inline constexpr double erf_large_f64[] = {
    0x1.570d36cb51ca6p+3,   0x1.9370b35013be3p+2,   0x1.ea2f93364383ap-1,   0x1.e5bee8dc4747dp-8,
    -0x1.62c320629419ap-10, 0x1.01a07a70f7912p-12,  -0x1.696567f90de65p-15, 0x1.dd8385bf7b862p-18,
    -0x1.1f0ef5269bd23p-20, 0x1.244f669429668p-23,  -0x1.8bf580240fa10p-27, -0x1.58ee4c5fc98cfp-31,
    0x1.673f8abba9324p-31,  -0x1.773748f13a919p-33, 0x1.5073f8407b1e8p-35,  -0x1.f4d21cae9f100p-37,
    0x1.5463097b53acfp-41};

// Phi(-a) = e^(-a^2 / 2) t q(t - 1/2), t = 2.5 / (2.5 + a), for 0 <= a <= 15; relative error 2^-25.9.
inline constexpr double gelu_f32[] = {0x1.2172520000000p-2,  0x1.6347ce0000000p-2,  0x1.b07eb40000000p-3,
                                      -0x1.e439d20000000p-6, -0x1.ad8dd20000000p-4, 0x1.4fb7cc0000000p-6,
                                      0x1.08a7420000000p-4,  -0x1.1f0fec0000000p-5, -0x1.0568500000000p-5,
                                      0x1.0893f60000000p-5};

// Phi(-a) = e^(-a^2 / 2) t q(t - 1/2), t = 3 / (3 + a), for 0 <= a <= 39; relative error 2^-55.3.
inline constexpr double gelu_f64[] = {
    0x1.f1b89c231e9b7p-3,  0x1.5bb437230bef3p-2,  0x1.3a0d052ee3344p-2,  0x1.021e7f9bb5fd0p-3,
    -0x1.c9212fcaacfd0p-5, -0x1.30a372cb2b752p-4, 0x1.672b661e4d04dp-6,  0x1.6d8b28d5bfc56p-5,
    -0x1.66b7e4d54557ap-6, -0x1.afb7bfba84cc2p-6, 0x1.b8c09ecf397fdp-6,  0x1.2849d56d45906p-7,
    -0x1.cecee9871fd11p-6, 0x1.3b10d85658e14p-7,  0x1.45b5dad02c9c5p-6,  -0x1.9555ae0973f62p-6,
    0x1.5dc16eab9aac9p-13, 0x1.b254161437adcp-6,  -0x1.85f6999338c92p-6, -0x1.43baa299f8edbp-7,
    0x1.0e0a92d4c649cp-5,  -0x1.7b61852c5c0e4p-7, -0x1.2978d90e30bafp-6, 0x1.b2fd4d3011dddp-7};

// atan(x) = x + x^3 q(x^2) for |x| <= 1; relative error 2^-28.5.
inline constexpr double atan_f32[] = {-0x1.55553e0000000p-2, 0x1.9991fc0000000p-3,  -0x1.2421b20000000p-3,
                                      0x1.c099e60000000p-4,  -0x1.5834540000000p-4, 0x1.dac93c0000000p-5,
                                      -0x1.fed0580000000p-6, 0x1.65a5820000000p-7,  -0x1.d62ed20000000p-10};

// atan(x) = x + x^3 q(x^2) for |x| <= tan(pi / 8); relative error 2^-59.4.
inline constexpr double atan_f64[] = {-0x1.555555555553dp-2, 0x1.99999999957b0p-3,  -0x1.24924922a98e4p-3,
                                      0x1.c71c70e4c061dp-4,  -0x1.745cf8ba66a54p-4, 0x1.3b1116eef752fp-4,
                                      -0x1.10eba12ef7a8cp-4, 0x1.df0e0e7891a66p-5,  -0x1.9ccd711748804p-5,
                                      0x1.37c8c6abf612bp-5,  -0x1.254f4190a3834p-6};

// asin(x) = x + x^3 q(x^2) for |x| <= 1/2; relative error 2^-31.8.
inline constexpr double asin_f32[] = {0x1.55554c0000000p-3, 0x1.33387c0000000p-4, 0x1.6caed60000000p-5,
                                      0x1.04917e0000000p-5, 0x1.d921920000000p-7, 0x1.3355240000000p-5};

// asin(x) = x + x^3 q(x^2) for |x| <= 1/2; relative error 2^-59.9.
inline constexpr double asin_f64[] = {0x1.5555555555577p-3, 0x1.333333332e10dp-4, 0x1.6db6db7213ab2p-5,
                                      0x1.f1c71a94909a7p-6, 0x1.6e8bdee9667b1p-6, 0x1.1c49efcd62b70p-6,
                                      0x1.ca1f9979e903fp-7, 0x1.75852f81e4bfbp-7, 0x1.613e631019040p-7,
                                      0x1.e5db4b65db436p-9, 0x1.63a411e898b22p-6, -0x1.5807e32296f1ep-6,
                                      0x1.0b49e646e8920p-5};

// erf(x) = t + q_n(t), t = x - n w, for 0 <= x <= 4 in intervals of length w; relative error 2^-25.3.
inline constexpr double erf_interval_f32 = 0x1.0ca8000000000p-2;
inline constexpr double erf_table_f32[6][16] = {
    {0x0.0p+0, 0x1.2854fc0000000p-2, 0x1.157abe0000000p-1, 0x1.77fa8e0000000p-1, 0x1.b975a20000000p-1,
     0x1.df735c0000000p-1, 0x1.f2affc0000000p-1, 0x1.fb30300000000p-1, 0x1.fe77740000000p-1,
     0x1.ff91e80000000p-1, 0x1.ffe4de0000000p-1, 0x1.fffa220000000p-1, 0x1.fffee40000000p-1,
     0x1.ffffd00000000p-1, 0x1.fffffa0000000p-1, 0x1.0000000000000p+0},
    {0x1.06eba80000000p-3, 0x1.b4d21a0000000p-5, -0x1.2544c80000000p-3, -0x1.921c860000000p-2,
     -0x1.3ff1ba0000000p-1, -0x1.98a1de0000000p-1, -0x1.cf85540000000p-1, -0x1.ec30020000000p-1,
     -0x1.f8f1c40000000p-1, -0x1.fdcf7e0000000p-1, -0x1.ff686e0000000p-1, -0x1.ffdc4a0000000p-1,
     -0x1.fff8aa0000000p-1, -0x1.fffeb00000000p-1, -0x1.ffffcc0000000p-1, -0x1.fffff80000000p-1},
    {0x1.30dfe00000000p-22, -0x1.1af98c0000000p-2, -0x1.cc5cc20000000p-2, -0x1.e978ba0000000p-2,
     -0x1.931a5e0000000p-2, -0x1.0f32ec0000000p-2, -0x1.3142d80000000p-3, -0x1.2317560000000p-4,
     -0x1.d9e11a0000000p-6, -0x1.4adb600000000p-7, -0x1.8d99ec0000000p-9, -0x1.9c2e100000000p-11,
     -0x1.713ea60000000p-13, -0x1.1e38dc0000000p-15, -0x1.8059c00000000p-18, -0x1.bf698a0000000p-21},
    {-0x1.812b720000000p-2, -0x1.36105c0000000p-2, -0x1.06dbba0000000p-3, 0x1.8c3ecc0000000p-5,
     0x1.33f53e0000000p-3, 0x1.5083e20000000p-3, 0x1.ff6ce80000000p-4, 0x1.2f90e40000000p-4,
     0x1.25eac60000000p-5, 0x1.da23500000000p-7, 0x1.427b360000000p-8, 0x1.74bf300000000p-10,
     0x1.7001520000000p-12, 0x1.3779bc0000000p-14, 0x1.c53f380000000p-17, 0x1.1c11de0000000p-19},
    {0x1.37fb860000000p-12, 0x1.0bcf200000000p-3, 0x1.754b420000000p-3, 0x1.1e29ac0000000p-3,
     0x1.ae8ac40000000p-5, -0x1.35ff920000000p-6, -0x1.8a8ba60000000p-5, -0x1.6a440a0000000p-5,
     -0x1.cb85c40000000p-6, -0x1.c41d8c0000000p-7, -0x1.6896280000000p-8, -0x1.dcaf0a0000000p-10,
     -0x1.0885aa0000000p-11, -0x1.f10e080000000p-14, -0x1.8d99d00000000p-16, -0x1.0fe6b80000000p-18},
    {0x1.c64c860000000p-4, 0x1.3ee97a0000000p-4, 0x1.da6cc00000000p-11, -0x1.da1ea20000000p-5,
     -0x1.11079c0000000p-4, -0x1.4016800000000p-5, -0x1.cfaf840000000p-8, 0x1.4d4d3e0000000p-7,
     0x1.9f723e0000000p-7, 0x1.1a5a220000000p-7, 0x1.17316e0000000p-8, 0x1.b27b3e0000000p-10,
     0x1.1353fe0000000p-11, 0x1.21877e0000000p-13, 0x1.ff0f920000000p-16, 0x1.7d774a0000000p-18}};

// Phi(-a) = e^(-a^2 / 2) q_n(a - centre_n) for 0 <= a < 15; relative error 2^-27.7.
inline constexpr double gelu_centres_f32[16] = {
    0x1.4000000000000p+0, 0x1.c000000000000p+0, 0x1.2000000000000p+1, 0x1.6000000000000p+1,
    0x1.c000000000000p+1, 0x1.2000000000000p+2, 0x1.6000000000000p+2, 0x1.a000000000000p+2,
    0x1.0000000000000p+3, 0x1.4000000000000p+3, 0x1.8000000000000p+3, 0x1.c000000000000p+3,
    0x1.0000000000000p-3, 0x1.8000000000000p-2, 0x1.4000000000000p-1, 0x1.c000000000000p-1};
inline constexpr double gelu_table_f32[7][16] = {
    {0x1.d898de0000000p-3, 0x1.7b5abe0000000p-3, 0x1.3aadde0000000p-3, 0x1.0bb9680000000p-3,
     0x1.b396fa0000000p-4, 0x1.5b5ace0000000p-4, 0x1.201faa0000000p-4, 0x1.eba5fe0000000p-5,
     0x1.9269720000000p-5, 0x1.43a38a0000000p-5, 0x1.0e7dce0000000p-5, 0x1.d087ae0000000p-6,
     0x1.d0af2c0000000p-2, 0x1.84b7060000000p-2, 0x1.4b1de20000000p-2, 0x1.1e7c2e0000000p-2},
    {-0x1.c493240000000p-4, -0x1.3253b80000000p-4, -0x1.b405cc0000000p-5, -0x1.432b1a0000000p-5,
     -0x1.b603900000000p-6, -0x1.1be2c60000000p-6, -0x1.8b19560000000p-7, -0x1.21ae920000000p-7,
     -0x1.86b84a0000000p-8, -0x1.fbf2d20000000p-9, -0x1.63cfca0000000p-9, -0x1.06cdbe0000000p-9,
     -0x1.5e6e6e0000000p-2, -0x1.06bfb20000000p-2, -0x1.93234e0000000p-3, -0x1.3baf580000000p-3},
    {0x1.7b79d20000000p-5, 0x1.bd45f40000000p-6, 0x1.15aa6c0000000p-6, 0x1.6c5e3c0000000p-7,
     0x1.a29f060000000p-8, 0x1.bfbaee0000000p-9, 0x1.07e3ea0000000p-9, 0x1.4ea5080000000p-10,
     0x1.7625dc0000000p-11, 0x1.8af2400000000p-12, 0x1.d0fb640000000p-13, 0x1.27e8060000000p-13,
     0x1.a4e15e0000000p-3, 0x1.222f240000000p-3, 0x1.9a45b20000000p-4, 0x1.28beee0000000p-4},
    {-0x1.1f31780000000p-6, -0x1.2961340000000p-7, -0x1.49b98c0000000p-8, -0x1.838b3e0000000p-9,
     -0x1.7e77e80000000p-10, -0x1.55b7280000000p-11, -0x1.57fcc40000000p-12, -0x1.7b5de80000000p-13,
     -0x1.617b360000000p-14, -0x1.3050000000000p-15, -0x1.2ddcda0000000p-16, -0x1.4b91980000000p-17,
     -0x1.b02a840000000p-4, -0x1.15c8d20000000p-4, -0x1.6e91b20000000p-5, -0x1.ef9f200000000p-6},
    {0x1.8ff1a00000000p-8, 0x1.721de00000000p-9, 0x1.70c4840000000p-10, 0x1.87b6740000000p-11,
     0x1.4faed40000000p-12, 0x1.fa36280000000p-14, 0x1.b6410e0000000p-15, 0x1.a672640000000p-16,
     0x1.49c07e0000000p-17, 0x1.d0e5c40000000p-19, 0x1.857a980000000p-20, 0x1.71c6300000000p-21,
     0x1.89deb40000000p-5, 0x1.dc32d40000000p-6, 0x1.27b8080000000p-6, 0x1.78a8060000000p-7},
    {-0x1.06124c0000000p-9, -0x1.b4f7a40000000p-11, -0x1.89fd860000000p-12, -0x1.7c87f20000000p-13,
     -0x1.2126020000000p-14, -0x1.717fda0000000p-16, -0x1.13f95e0000000p-17, -0x1.d219700000000p-19,
     -0x1.36c5f60000000p-20, -0x1.658d540000000p-22, -0x1.f8fc900000000p-24, -0x1.9de3a40000000p-25,
     -0x1.47418c0000000p-6, -0x1.7649c00000000p-7, -0x1.b7ffba0000000p-8, -0x1.0968040000000p-8},
    {0x1.3f29d80000000p-11, 0x1.e437800000000p-13, 0x1.8e7d8e0000000p-14, 0x1.6085120000000p-15,
     0x1.d8056e0000000p-17, 0x1.02fce40000000p-18, 0x1.50ddda0000000p-20, 0x1.f5bf120000000p-22,
     0x1.1a9e560000000p-23, 0x1.0c66440000000p-25, 0x1.41b5340000000p-27, 0x1.c93a6e0000000p-29,
     0x1.f309740000000p-8, 0x1.0f63da0000000p-8, 0x1.2f800a0000000p-9, 0x1.5c78340000000p-10}};

} // namespace kiln::emit::coefficients
