"""Hostile bodies for the routes that take JSON: wrong types, absurd numbers, nesting, broken text, costly schemas."""

import copy
import json

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"type": "string"}},
          "required": ["a"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {
    "name": "f", "description": "d", "parameters": {"type": "object", "properties": {
        "x": {"type": "string", "description": "what", "enum": ["a", "b"]},
        "y": {"type": "array", "items": {"type": "number"}}}, "required": ["x"]}}}]

VALID = [
    ("/v1/chat/completions", {
        "model": "demo", "messages": [{"role": "system", "content": "Be brief."},
                                      {"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 1, "max_tokens": 4, "n": 1,
        "stop": ["x"], "logprobs": True, "top_logprobs": 2, "stream": True, "stream_options": {"include_usage": True},
        "logit_bias": {"100": 1}, "frequency_penalty": 0.1, "presence_penalty": 0.1, "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False}}),
    ("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hello"},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": \"a\"}"}}]},
                     {"role": "tool", "tool_call_id": "1", "content": "3"}],
        "max_tokens": 4, "tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False}),
    ("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 4,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}}}),
    ("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "He"}], "max_tokens": 4,
        "continue_final_message": True, "response_format": {"type": "regex", "pattern": "[a-c]{1,4}"}}),
    ("/v1/completions", {"prompt": ["Hello", "You"], "max_tokens": 3, "n": 2, "best_of": 2, "echo": True, "logprobs": 2,
                         "suffix": "", "stop": "x", "stream": True}),
    ("/v1/completions", {"prompt": [2, 300, 400], "max_tokens": 3, "min_tokens": 1, "ignore_eos": True, "seed": 3}),
    ("/tokenize", {"content": "a b c", "add_special": True, "with_pieces": True}),
    ("/tokenize", {"messages": [{"role": "user", "content": "Hello"}], "tools": TOOLS}),
    ("/detokenize", {"tokens": [2, 100, 200]}),
]


def wrong_value(draw):
    """Any JSON value, and some that no sane client sends."""
    return draw.choice([
        None, True, False, 0, -1, 1, 2, 17, 1.5, -0.0, 1e-300, 1e300, -1e300, 2**31, 2**31 - 1, -(2**31), 2**32, 2**53,
        2**63, 2**63 - 1, -(2**63), 2**64, 10**30, "", "a", "0", "null", "\x00", "\ud800", "\uffff", "😀" * 50, "<bos>",
        "<|turn>model\n", "<|channel>thought\n", "{{ 1/0 }}", "x" * 5000, [], [[]], [None], [1, "a"], ["a", 1], [{}],
        {}, {"a": 1}, {"": ""}, {"type": "text"}, {"type": []}, {"$ref": "#"}, [0] * 300, {"type": "function"}, [1e300],
        {"function": {}}, {"type": "object", "properties": []}, ["user"], [[1], [2]], [2, 2**40], [-1], [True]])


def paths_of(value, path=()):
    """Every place in a JSON value."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from paths_of(member, (*path, key))


def with_change(draw, body):
    """A copy with one place replaced, taken away, given twice or renamed."""
    body = copy.deepcopy(body)
    path = draw.choice([path for path in paths_of(body) if path])
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    kind = draw.random()
    if kind < 0.75:
        holder[path[-1]] = wrong_value(draw)
    elif kind < 0.85:
        del holder[path[-1]]
    elif isinstance(holder, list):
        holder.append(copy.deepcopy(holder[path[-1]]))
    else:
        holder[draw.choice(["", "Content", "ROLE", "x" * 500, "schema", "type", "tools"])] = holder.pop(path[-1])
    return body


def wrong_types(draw):
    path, body = draw.choice(VALID)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        if body:
            body = with_change(draw, body)
    return path, json.dumps(body).encode()


def broken_text(draw):
    """A body whose bytes were damaged."""
    path, body = draw.choice(VALID)
    data = bytearray(json.dumps(body, ensure_ascii=False).encode())
    for _ in range(draw.choice([1, 1, 3, 20])):
        at = draw.randrange(max(len(data), 1))
        kind = draw.randrange(5)
        if kind == 0:
            data[at:at + 1] = [draw.randrange(256)]
        elif kind == 1:
            del data[at:at + draw.randint(1, 9)]
        elif kind == 2:
            data[at:at] = draw.choice([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x00", b"\"",
                                       b"\\", b"{", b"]", b",", b"\\ud83d", b"\\u00", b"\xef\xbb\xbf", b"NaN", b"//"])
        elif kind == 3:
            data[at:at] = data[at:at + 40]
        else:
            data = data[:max(at, 1)]
    return path, bytes(data)


def absurd_numbers(draw):
    """Numbers no JSON library agrees on, where numbers are expected."""
    number = draw.choice(["1e400", "-1e400", "1e-400", "0.1e1", "00", "01", "+1", ".5", "5.", "0x10", "1_000", "NaN",
                          "Infinity", "-Infinity", "9" * 400, "-" + "9" * 400, "1." + "0" * 400,
                          "1e99999999999999999999", "-0", "2e0", "0e0", "1E+2"])
    field = draw.choice(["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "n", "top_logprobs",
                         "presence_penalty", "repetition_penalty", "min_tokens", "logprobs"])
    if draw.random() < 0.2:
        return "/v1/completions", f'{{"prompt": [2, {number}], "max_tokens": 2}}'.encode()
    if draw.random() < 0.2:
        return "/v1/completions", f'{{"prompt": "a", "max_tokens": 2, "logit_bias": {{"100": {number}}}}}'.encode()
    return "/v1/completions", f'{{"prompt": "a", "max_tokens": 2, "{field}": {number}}}'.encode()


def deep(draw):
    """Nesting that a recursive reader pays for with its stack."""
    depth = draw.choice([50, 127, 129, 1000, 100000])
    kind = draw.randrange(5)
    if kind == 0:
        return "/tokenize", b"[" * depth + b"]" * depth
    if kind == 1:
        return "/tokenize", b'{"content":' * depth + b'"a"' + b"}" * depth
    if kind == 2:
        return "/v1/completions", b'{"max_tokens":2,"prompt":' + b"[" * depth + b"1" + b"]" * depth + b"}"
    if kind == 3:
        schema = b'{"type":"array","items":' * depth + b'{"type":"null"}' + b"}" * depth
        return "/v1/chat/completions", (b'{"messages":[{"role":"user","content":"a"}],"max_tokens":2,"response_format":'
                                        b'{"type":"json_schema","json_schema":{"name":"n","schema":' + schema + b"}}}")
    return "/v1/chat/completions", (b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"",'
                                    b'"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":'
                                    + b'{"a":' * depth + b"1" + b"}" * depth + b"}}]}],\"max_tokens\":2}")


def costly(draw):
    """Schemas, patterns and texts whose naive treatment takes for ever."""
    pattern = draw.choice(["(a|a)*b", "(a*)*b", "((a{1,1000}){1,1000}){1,1000}", "[\\s\\S]{0,100000}", "(", "a{2,1}",
                           "\\p{L}+", "(?=a)b", "\\1", "[z-a]", "a**", "(?:" * 3000 + ")" * 3000, "|" * 20000,
                           "(.{0,50}x){0,50}", "[^\\u0000-\\uffff]", "^$", ".*" * 200, "(a?){400}a{400}", "\\", "[",
                           "\\u12"])
    node = {"$ref": "#/$defs/n"}
    schema = draw.choice([
        {"type": "string", "pattern": pattern}, {"$ref": "#"}, {"$ref": "#/$defs/x"}, {"$ref": "http://a/b"},
        {"allOf": [{"$ref": "#"}]}, {"not": {}}, {"enum": []}, {"type": []}, {"type": "none"}, {"minimum": "a"},
        {"enum": list(range(20000))}, {"type": "string", "minLength": 10**9}, {"type": "array", "minItems": 10**9},
        {"type": "object", "properties": {str(at): {"type": "integer"} for at in range(1500)}},
        {"type": "object", "required": [str(at) for at in range(300)]},
        {"$defs": {"n": {"anyOf": [node, node]}}, **node}, {"type": "integer", "multipleOf": 0},
        {"anyOf": [{"anyOf": [{"const": [low, high]} for low in range(40)]} for high in range(40)]},
        {"type": "integer", "minimum": -1e300, "maximum": 1e300},
        {"type": "number", "minimum": 1e308, "maximum": 1e309},
        {"allOf": [{"properties": {chr(97 + at): {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
                   for at in range(20)]},
        {"type": "array", "maxItems": 10**6,
         "items": {"type": "array", "maxItems": 10**6, "items": {"maxLength": 10**6}}},
        True, False, [], {"patternProperties": {pattern: {}}}, {"const": "\ud800"}, {"format": "x" * 9999}])
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
    kind = draw.randrange(5)
    if kind == 0:
        body["response_format"] = {"type": "regex", "pattern": pattern}
    elif kind < 3:
        body["response_format"] = {"type": "json_schema", "json_schema": {
            "name": "n", "schema": schema, "strict": draw.choice([True, False])}}
    elif kind == 3:
        body["tools"] = [{"type": "function", "function": {"name": draw.choice(["f", "", "a b", "é" * 90, "<|turn>"]),
                                                           "parameters": schema}}]
        body["tool_choice"] = draw.choice(["required", "auto"])
    else:
        text = draw.choice(["a" * 300000, " " * 200000, "🙂" * 50000, "\n\t" * 80000, "é̀" * 50000, "<bos>" * 20000,
                            "\u0000" * 50000])
        return "/tokenize", json.dumps({"content": text}).encode()
    return "/v1/chat/completions", json.dumps(body).encode()


def template_names(draw):
    """Arguments of the chat template that shadow what it relies on."""
    name = draw.choice(["bos_token", "add_generation_prompt", "namespace", "raise_exception", "loop", "strftime_now",
                        "tools_in_user_message", "range", "message", "messages", "tools", "", "enable_thinking", "True",
                        "a.b"])
    body = {"messages": [{"role": draw.choice(["user", "assistant", "tool", "system", "developer", "model", ""]),
                          "content": draw.choice(["a", "", [], [{"type": "text", "text": ""}], None]),
                          "tool_call_id": draw.choice(["1", ""]), "name": draw.choice(["f", "", "\n"])}
                         for _ in range(draw.randint(1, 4))],
            "max_tokens": 2, "chat_template_kwargs": {name: wrong_value(draw)}}
    return draw.choice(["/v1/chat/completions", "/tokenize"]), json.dumps(body).encode()


KINDS = [wrong_types, wrong_types, wrong_types, broken_text, broken_text, absurd_numbers, deep, costly, template_names]


def hostile_body(draw):
    """(kind, path, body)"""
    make = draw.choice(KINDS)
    path, body = make(draw)
    return make.__name__, path, body
