// SHA-256 as its standard writes it, a block of 64 bytes at a time.
#include "base/sha256.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace gemmatrace {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Digest = std::array<uint32_t, 8>;
constexpr Digest kInitialDigest = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

uint32_t big_endian(const std::byte* bytes) {
    uint32_t word = 0;
    for (int index = 0; index < 4; ++index) word = word << 8 | static_cast<uint32_t>(bytes[index]);
    return word;
}

// The message schedule of a block.
std::array<uint32_t, 64> expand(const std::byte* block) {
    std::array<uint32_t, 64> words;
    for (size_t index = 0; index < 16; ++index) words[index] = big_endian(block + 4 * index);
    for (size_t index = 16; index < words.size(); ++index) {
        const uint32_t early = words[index - 15], late = words[index - 2];
        const uint32_t sigma0 = std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3;
        const uint32_t sigma1 = std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10;
        words[index] = words[index - 16] + sigma0 + words[index - 7] + sigma1;
    }
    return words;
}

void add_block(Digest& digest, const std::byte* block) {
    const auto words = expand(block);
    auto [a, b, c, d, e, f, g, h] = digest;
    for (size_t round = 0; round < words.size(); ++round) {
        const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t first = h + sum1 + ((e & f) ^ (~e & g)) + kRoundConstants[round] + words[round];
        const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t second = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const Digest changed = {a, b, c, d, e, f, g, h};
    for (size_t index = 0; index < digest.size(); ++index) digest[index] += changed[index];
}

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
    Digest digest = kInitialDigest;
    const size_t whole = bytes.size() / kBlockBytes * kBlockBytes;
    for (size_t at = 0; at < whole; at += kBlockBytes) add_block(digest, bytes.data() + at);
    // What is left, a one, zeros, and the number of bits.
    std::array<std::byte, 2 * kBlockBytes> tail = {};
    const size_t left = bytes.size() - whole;
    if (left > 0) std::memcpy(tail.data(), bytes.data() + whole, left);
    tail[left] = std::byte{0x80};
    const size_t end = left + 9 <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
    const uint64_t bits = static_cast<uint64_t>(bytes.size()) * 8;
    for (size_t byte = 0; byte < 8; ++byte) tail[end - 1 - byte] = static_cast<std::byte>(bits >> (8 * byte));
    for (size_t at = 0; at < end; at += kBlockBytes) add_block(digest, tail.data() + at);

    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint32_t word : digest) {
        for (int shift = 28; shift >= 0; shift -= 4) text.push_back(kDigits[word >> shift & 15]);
    }
    return text;
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace gemmatrace
