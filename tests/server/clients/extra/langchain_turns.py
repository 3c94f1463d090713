"""LangChain's ChatOpenAI against gemmatrace serve: invoke, stream, bind_tools, with_structured_output.

Usage: langchain_turns.py BASE_URL, e.g. http://127.0.0.1:8080/v1
"""

import sys
from importlib.metadata import version

from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

FRANCE = "What is the capital of France?"
PARIS = "The capital of France is Paris."
OSLO = HumanMessage("What is the weather in Oslo?")


@tool
def get_weather(city: str) -> str:
    """Gets the current weather of a city."""
    return "sunny, 21 degrees"


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


def check_chat(model):
    answer = model.invoke(FRANCE)
    assert answer.content == PARIS, answer
    assert answer.usage_metadata["total_tokens"] > 0, answer
    chunks = list(model.stream(FRANCE))
    assert "".join(chunk.text for chunk in chunks) == PARIS, chunks
    assert len(chunks) > 3, chunks


def check_tools(model):
    bound = model.bind_tools([get_weather])
    whole = bound.invoke([OSLO])
    streamed = sum(bound.stream([OSLO]), AIMessageChunk(""))
    for message in (whole, streamed):
        assert [(call["name"], call["args"]) for call in message.tool_calls] == [("get_weather", {"city": "Oslo"})]
    call = whole.tool_calls[0]
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    answer = bound.invoke([OSLO, whole, result])
    assert answer.text == "The weather in Oslo: sunny, 21 degrees.", answer
    forced = model.bind_tools([get_weather], tool_choice="get_weather").invoke(FRANCE)
    assert {call["name"] for call in forced.tool_calls} == {"get_weather"}, forced


def check_structured_output(model):
    for method in ("json_schema", "function_calling"):
        person = model.with_structured_output(Person, method=method).invoke("Invent a person")
        assert isinstance(person, Person), person
    mapping = model.with_structured_output(Person.model_json_schema(), method="json_schema").invoke("Invent a person")
    Person.model_validate(mapping)


def main():
    for uses_responses in (False, True):
        model = ChatOpenAI(base_url=sys.argv[1], api_key="none", model="demo", max_retries=0, timeout=600,
                           use_responses_api=uses_responses, stream_usage=True)
        check_chat(model)
        check_tools(model)
        check_structured_output(model)
    print(f"langchain-openai {version('langchain-openai')}: invoke, stream, bind_tools, with_structured_output; "
          "chat completions and Responses")


main()
