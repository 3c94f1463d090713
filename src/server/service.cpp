// Whether a request means this model.
#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace gemmatrace::server {

void Service::check_model(const std::string& model) const {
    if (model == model_id || std::ranges::find(model_aliases, model) != model_aliases.end()) return;
    throw Error(ErrorCode::not_found, fmt::format("the model '{}' is not served here", model),
                {{"field", "model"}, {"code", "model_not_found"}}, fmt::format("use '{}'", model_id));
}

}  // namespace gemmatrace::server
