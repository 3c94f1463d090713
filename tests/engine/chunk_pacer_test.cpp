// Chunks follow the speed measured, within what others can be asked to wait.
#include "engine/chunk_pacer.h"

#include <gtest/gtest.h>

namespace gemmatrace::engine {
namespace {

TEST(ChunkPacer, BeginsShortBecauseNothingWasMeasured) {
    EXPECT_EQ(ChunkPacer(512).tokens(false), 32);
    EXPECT_EQ(ChunkPacer(512).tokens(true), 8);
    EXPECT_EQ(ChunkPacer(4).tokens(false), 4);
}

TEST(ChunkPacer, RunsWholeChunksOnAFastMachine) {
    ChunkPacer pacer(512);
    pacer.chunk_took(32, 0.01);
    EXPECT_EQ(pacer.tokens(false), 512);
    EXPECT_EQ(pacer.tokens(true), 512);
}

TEST(ChunkPacer, ASlowPromptLetsStreamsTakeTheirTurnsEarlier) {
    ChunkPacer pacer(512);
    pacer.chunk_took(10, 1.0);  // a tenth of a second a token
    EXPECT_EQ(pacer.tokens(false), 40);
    EXPECT_EQ(pacer.tokens(true), 8);
}

TEST(ChunkPacer, WhereATokenOfAStreamIsSlowAChunkMayTakeTwiceAsLong) {
    ChunkPacer pacer(512);
    pacer.chunk_took(100, 1.0);
    pacer.step_took(0.01);
    EXPECT_EQ(pacer.tokens(true), 25);
    pacer.step_took(0.5);
    EXPECT_EQ(pacer.tokens(true), 100);
}

}  // namespace
}  // namespace gemmatrace::engine
