// How attention lays out its scratch: constants that the bodies and the size function share.
#pragma once

namespace lineshaft::kernels {

inline constexpr int kAttentionHeadDimMax = 256;
inline constexpr int kAttentionQueriesMax = 12;
// Floats between rows of queries, scores and sums. 16 more than the largest head, so that rows of
// the same column fall into different sets of the L1 cache.
inline constexpr int kAttentionRowStride = kAttentionHeadDimMax + 16;

// Queries, weights, and V sums of a segment and in total; their sums by lane; largest scores.
inline constexpr int kAttentionScratchFloats =
    kAttentionQueriesMax * (4 * kAttentionRowStride + 2 * 16) + 2 * 16;

}  // namespace lineshaft::kernels
