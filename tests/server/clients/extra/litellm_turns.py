"""LiteLLM against gemmatrace serve: completion, stream, tools, errors; through OpenAI's dialect and Anthropic's.

Usage: litellm_turns.py BASE_URL, e.g. http://127.0.0.1:8080/v1
"""

import json
import os
import sys
from importlib.metadata import version

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the list of prices in the package, not the one on the network

import litellm  # noqa: E402

USER = [{"role": "user", "content": "What is the capital of France?"}]
PARIS = "The capital of France is Paris."
OSLO = {"role": "user", "content": "What is the weather in Oslo?"}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Gets the current weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def check(settings):
    def ask(**members):
        return litellm.completion(**{"messages": USER, "timeout": 600, "max_tokens": 100, **settings, **members})

    answer = ask()
    assert answer.choices[0].message.content == PARIS, answer
    assert answer.usage.total_tokens > 0, answer
    chunks = list(ask(stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == PARIS, chunks

    whole = ask(messages=[OSLO], tools=[WEATHER])
    streamed = litellm.stream_chunk_builder(list(ask(messages=[OSLO], tools=[WEATHER], stream=True)))
    for reply in (whole, streamed):
        call = reply.choices[0].message.tool_calls[0]
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"}), reply
        assert reply.choices[0].finish_reason == "tool_calls", reply
    result = {"role": "tool", "tool_call_id": whole.choices[0].message.tool_calls[0].id, "content": "sunny, 21 degrees"}
    last = ask(messages=[OSLO, whole.choices[0].message.model_dump(), result], tools=[WEATHER])
    assert last.choices[0].message.content == "The weather in Oslo: sunny, 21 degrees.", last

    try:
        ask(messages=[{"role": "user", "content": "word " * 200000}])
    except litellm.ContextWindowExceededError:
        pass
    else:
        raise AssertionError("a prompt that is too long was taken")


def main():
    base_url = sys.argv[1]
    check({"model": "openai/demo", "api_base": base_url, "api_key": "none"})
    check({"model": "anthropic/demo", "api_base": base_url.removesuffix("/v1"), "api_key": "none"})
    text = litellm.text_completion(model="text-completion-openai/demo", prompt="The capital of France is", max_tokens=3,
                                   api_base=base_url, api_key="none")
    assert "Paris" in text.choices[0].text, text
    print(f"litellm {version('litellm')}: completion, stream, tools, errors; openai/, anthropic/, text-completion-openai/")


main()
