// Row by row through one buffer.
#include "trace/weight_stream.h"

#include <cstring>
#include <vector>

#include "base/bf16.h"

namespace gemmatrace::trace {
namespace {

using checkpoint::Dtype;
using checkpoint::StoredTensor;

// Collects bytes and passes them on when there are enough.
class Slices {
  public:
    Slices(size_t slice_bytes, const ByteSink& sink) : slice_bytes_(slice_bytes), sink_(sink) {}

    // Room for so many bytes more, to be filled before the next call.
    std::byte* next(size_t bytes) {
        if (!buffer_.empty() && buffer_.size() + bytes > slice_bytes_) flush();
        const size_t at = buffer_.size();
        buffer_.resize(at + bytes);
        return buffer_.data() + at;
    }
    void flush() {
        if (!buffer_.empty()) sink_(offset_, buffer_);
        offset_ += buffer_.size();
        buffer_.clear();
    }

  private:
    size_t slice_bytes_;
    const ByteSink& sink_;
    std::vector<std::byte> buffer_;
    size_t offset_ = 0;
};

void copy_run(const StoredTensor& tensor, size_t first, size_t count, std::byte* out) {
    if (tensor.dtype == Dtype::bf16) {
        std::memcpy(out, tensor.data.data() + first * 2, count * 2);
        return;
    }
    for (size_t index = 0; index < count; ++index) {
        const uint16_t bits = float_to_bf16(model::stored_element(tensor, first + index, model::Precision::bf16));
        std::memcpy(out + index * 2, &bits, 2);
    }
}

}  // namespace

void stream_input(const PackedInput& input, int32_t rank, const model::StoredWeights& weights, size_t slice_bytes,
                  const ByteSink& sink) {
    Slices slices(slice_bytes, sink);
    for (int64_t outer = 0; outer < input.outer; ++outer) {
        for (const Piece& piece : input.pieces[static_cast<size_t>(rank)]) {
            const StoredTensor& tensor = *weights.tensors[static_cast<size_t>(piece.slot)];
            const auto& shape = weights.plan.slots[static_cast<size_t>(piece.slot)].shape;
            const int64_t width = shape.back();
            const int64_t height = shape.size() > 1 ? shape[shape.size() - 2] : 1;
            for (int64_t row = 0; row < piece.rows; ++row) {
                const int64_t first = (outer * height + piece.row_begin + row) * width + piece.column_begin;
                const auto count = static_cast<size_t>(piece.columns);
                copy_run(tensor, static_cast<size_t>(first), count, slices.next(count * 2));
            }
        }
    }
    slices.flush();
}

}  // namespace gemmatrace::trace
