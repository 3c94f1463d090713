// Thoughts in base64 behind a mark of ours.
#include "server/messages_signature.h"

#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace gemmatrace::server {
namespace {

constexpr std::string_view kShownMark = "gemmatrace-shown";
constexpr std::string_view kHiddenMark = "gemmatrace-hidden.";
constexpr std::string_view kSixBits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// Without padding: the length tells how much the last group holds.
std::string to_base64(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size() * 4 / 3 + 3);
    uint32_t bits = 0;
    int count = 0;
    for (const char byte : bytes) {
        bits = (bits << 8 | static_cast<unsigned char>(byte)) & 0xFFFFU;
        count += 8;
        for (; count >= 6; count -= 6) text += kSixBits[bits >> (count - 6) & 63U];
    }
    if (count > 0) text += kSixBits[bits << (6 - count) & 63U];
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size() * 3 / 4);
    uint32_t bits = 0;
    int count = 0;
    for (const char letter : text) {
        const size_t value = kSixBits.find(letter);
        if (value == std::string_view::npos) return std::nullopt;
        bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFFU;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>(bits >> count & 0xFFU);
    }
    return bytes;
}

}  // namespace

std::string thinking_signature(std::string_view thought, bool hides_thought) {
    if (!hides_thought) return std::string(kShownMark);
    return std::string(kHiddenMark) + to_base64(thought);
}

std::string thought_of(const RequestFields& block) {
    std::string shown = block.text("thinking").value_or("");
    const std::string signature = block.text("signature").value_or("");
    if (!shown.empty() || !signature.starts_with(kHiddenMark)) return shown;
    const auto hidden = from_base64(std::string_view(signature).substr(kHiddenMark.size()));
    return hidden ? replace_invalid_utf8(*hidden) : shown;
}

}  // namespace gemmatrace::server
