// Any JSON as the variables of a template that walks, formats and converts whatever it is given.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/chat_template.h"

using gemmatrace::Error;
using gemmatrace::ErrorCode;
using gemmatrace::require;
namespace text = gemmatrace::text;

namespace {

constexpr std::string_view kSource = R"j(
{%- macro walk(value) -%}
    {%- if value is mapping -%}
        {%- for key, item in value|dictsort %}{{ key|upper }}:{{ walk(item) }},{% endfor -%}
    {%- elif value is string -%}
        {{ value|trim|title|replace('a', 'b')|truncate(9) }}{{ value[::-1] }}{{ value.split()|join('-') }}{{ value|e|wordcount }}
        {{- value|int ~ value|float ~ value|indent ~ value.splitlines()|length ~ '%r|%a|%-9s' % (value, value, value) }}
    {%- elif value is sequence -%}
        {%- for item in value %}{{ loop.index }}/{{ loop.length }}{{ walk(item) }};{% endfor -%}
        {{ value[1:]|map('string')|unique|list|length }}{{ value|reverse|first }}
    {%- elif value is number -%}
        {{ value + 1 }} {{ value * value }} {{ value // 3 }} {{ value % 7 }} {{ value|round(1) }} {{ '%.3g' % value }}
    {%- else -%}
        {{ value }}
    {%- endif -%}
{%- endmacro -%}
{{ bos_token }}{% for message in messages %}<|turn>{{ message.role }}{{ walk(message) }}{{ message|tojson }}<turn|>
{% endfor %}{{ walk(other) }}{{ other|string|length }}{{ other|tojson(indent=1, ensure_ascii=true, sort_keys=true) }})j";

text::TemplateLimits limits() {
    text::TemplateLimits small;
    small.max_steps = 500'000;
    small.max_output_bytes = size_t{4} << 20;
    small.max_value_bytes = size_t{32} << 20;
    return small;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const auto kTemplate = text::ChatTemplate::parse(kSource, "fuzz");
    const std::string_view json(reinterpret_cast<const char*>(data), size);
    try {
        const auto variables = gemmatrace::parse_json(json, "fuzz", ErrorCode::bad_request);
        const auto rendered = kTemplate.render(variables, {{"bos_token", "<bos>"}}, limits());
        require(gemmatrace::is_valid_utf8(rendered.text()), "the text is UTF-8");
    } catch (const Error& error) {
        if (error.code() != ErrorCode::bad_request) throw;
    }
    return 0;
}
