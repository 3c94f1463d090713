// Why a sequence ended.
#pragma once

namespace gemmatrace::engine {

enum class FinishReason {
    stop,       // an end token, or the listener had enough
    length,     // max_tokens
    cancelled,  // on request
};

}  // namespace gemmatrace::engine
