"""Conversations that chat templates meet: every combination of histories, tools and switches, good and bad."""
import itertools

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather at a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City, e.g. \"Zürich\""},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "nullable": True},
                "points": {"type": "array", "description": "Where exactly", "items": {"type": "object", "properties": {
                    "lat": {"type": "number"}, "Lon": {"type": "number", "description": "East > 0"}}, "required": ["lat", "Lon"]}},
                "options": {"type": "object", "properties": {"deep": {"type": "object", "properties": {"er": {"type": "boolean"}},
                                                                     "required": ["er"]}}},
            },
            "required": ["location"],
        },
        "response": {"type": "object", "properties": {"degrees": {"type": "number"}}},
    },
}
PLAIN = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}}
BARE = {"type": "function", "function": {"name": "ping", "description": "No parameters at all."}}
EDIT = {
    "type": "function",
    "function": {"name": "edit_file", "description": "Edits <file> & 'more' \"quotes\" \\ back\nslash.", "parameters": {
        "type": "object", "properties": {"edits": {"type": "array", "items": {"type": "string"}}, "Mode": {"type": "string"},
                                         "anything": {"description": "no type"}}, "required": ["edits", "Mode"]}},
}

CALL = {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"location": "Zürich", "days": 2, "Unit": None}}}
CALL_NESTED = {"id": "call00002", "type": "function", "function": {"name": "edit_file", "arguments": {
    "edits": ["a{b}", "c\"d'", {"k": [1, 2.5, True, None, {"z": "<|\"|>"}]}], "Mode": "x\ny", "empty": {}, "list": []}}}
CALL_TEXT = {"id": "call00003", "type": "function", "function": {"name": "now", "arguments": "{\"a\": 1}"}}
CALL_EMPTY = {"id": "call00004", "type": "function", "function": {"name": "ping", "arguments": {}}}
CALL_NONE = {"id": "c5", "type": "function", "function": {"name": "ping", "arguments": None}}


def user(content):
    return {"role": "user", "content": content}


def model(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, **more):
    return {"role": "tool", "content": content, **more}


SYSTEM = {"role": "system", "content": " Be brief. \n"}
DEVELOPER = {"role": "developer", "content": "You are a pirate."}
PARTS = [{"type": "text", "text": " What is it? "}, {"type": "image"}, {"type": "text", "text": "\ttell\n"}, {"type": "audio"}, {"type": "video"}]

HISTORIES = {
    "one": [user("Hi")],
    "system": [SYSTEM, user("Hello there")],
    "developer": [DEVELOPER, user("Ahoy")],
    "turns": [user("Hi"), model("Hello!"), user("How are you?")],
    "long": [SYSTEM, user("1"), model("one"), user("2"), model("two"), user("3"), model("three"), user("4")],
    "empty user": [user("")],
    "empty reply": [user("Hi"), model(""), user("?")],
    "spaces": [user("  \n\t padded \u00a0 "), model("\n\n x \n"), user("\u2028y\u3000")],
    "unicode": [user("héllo wörld 日本語 🙂👩‍👩‍👧 \u202eRTL ﬁ ß İ")],
    "control tokens": [user("<turn|><|turn>model\n<bos> <|im_end|> </s> [INST] <|\"|>"), model("<|tool_call>call:x{}<tool_call|> <end_of_turn>"), user("go on")],
    "quotes": [user("a \"b\" 'c' \\d {{ x }} {% if %} {# #} %s {} & <b>")],
    "parts": [user(PARTS)],
    "parts reply": [user("Look"), model([{"type": "text", "text": "I <|channel>thought\nhm<channel|> see"}]), user(PARTS[:1])],
    "no parts": [user([])],
    "thinking": [user("Why?"), model("<|channel>thought\nlet me\nthink<channel|>Because."), user("And?")],
    "thinking twice": [user("Why?"), model("a<|channel>x<channel|>b<|channel>y<channel|>c "), user("?")],
    "thinking open": [user("Why?"), model("<|channel>thought\nnever closed"), user("?"), model("x<channel|>stray"), user("!")],
    "think tags": [user("Why?"), model("<think>\nhm\n</think>\n\nBecause."), user("And?"), model("<think>\n1\n</think>\nEnd")],
    "reasoning": [user("2+2?"), model("4", reasoning="sum it"), user("3+3?"), model("6", reasoning_content="add it")],
    "reasoning call": [user("Weather?"), model("", reasoning_content="need the tool", tool_calls=[CALL])],
    "call": [user("Weather?"), model("", tool_calls=[CALL])],
    "call with text": [user("Weather?"), model("Let me look.", tool_calls=[CALL]), tool("sunny", tool_call_id="call00001", name="get_weather")],
    "call null content": [user("Weather?"), model(None, tool_calls=[CALL]), tool("sunny", tool_call_id="call00001")],
    "call no content": [user("Weather?"), {"role": "assistant", "tool_calls": [CALL]}, tool("sunny", tool_call_id="call00001")],
    "result": [user("Weather?"), model("", tool_calls=[CALL]), tool("{\"degrees\": 21}", tool_call_id="call00001"), model("21 degrees."), user("Thanks")],
    "result last": [SYSTEM, user("Weather?"), model("", tool_calls=[CALL]), tool("sunny & <warm>", tool_call_id="call00001")],
    "two calls": [user("Both?"), model("", tool_calls=[CALL, CALL_NESTED]), tool("one", tool_call_id="call00001"), tool("two", tool_call_id="call00002")],
    "call chain": [user("Go"), model("", tool_calls=[CALL_EMPTY]), tool("", tool_call_id="call00004"), model("", tool_calls=[CALL_NESTED]), tool("done", tool_call_id="call00002"), model("All done.")],
    "unknown id": [user("Go"), model("", tool_calls=[CALL]), tool("x", tool_call_id="nope"), tool("y", name="named"), tool("z")],
    "tool responses": [user("Go"), model("", tool_calls=[CALL], tool_responses=[{"name": "get_weather", "response": {"degrees": 21.5, "Sky": ["blue", None], "ok": True}}])],
    "tool responses text": [user("Go"), model("Done.", tool_calls=[CALL], tool_responses=[{"name": "get_weather", "response": "warm"}]), user("ok")],
    "map result": [user("Go"), model("", tool_calls=[CALL]), tool({"degrees": 21}, tool_call_id="call00001")],
    "parts result": [user("Go"), model("", tool_calls=[CALL]), tool([{"type": "text", "text": "sun"}, {"type": "text", "text": "ny"}], tool_call_id="call00001")],
    "text arguments": [user("Go"), model("", tool_calls=[CALL_TEXT]), tool("ok", tool_call_id="call00003")],
    "no arguments": [user("Go"), model("", tool_calls=[CALL_NONE])],
    "assistants": [user("Hi"), model("one"), model("two"), user("?")],
    "assistants calls": [user("Hi"), model("a", tool_calls=[CALL_EMPTY]), tool("r", tool_call_id="call00004"), model("b"), model("c"), user("?")],
    "users": [user("a"), user("b"), model("c")],
    "assistant first": [model("Welcome"), user("Hi")],
    "assistant last": [user("Hi"), model("Hel")],
    "systems": [SYSTEM, user("a"), {"role": "system", "content": "Be long."}, user("b")],
    "tool without call": [user("Hi"), tool("out of nowhere", tool_call_id="x")],
    "no messages": [],
    "odd role": [{"role": "critic", "content": "meh"}, user("Hi")],
    "no role": [{"content": "who?"}],
    "number content": [user(5)],
    "content object": [user({"type": "text", "text": "x"})],
    "extra fields": [{"role": "user", "content": "Hi", "name": "Ann", "items": 3, "keys": "k", "get": None}],
}
TOOLS = {"none": None, "weather": [WEATHER], "all": [WEATHER, PLAIN, BARE, EDIT], "empty": []}
SWITCHES = [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"enable_thinking": True, "preserve_thinking": True}]


def requests():
    """Pairs of a name and the variables of one render, as Transformers gives them."""
    for (history, messages), (tools_name, tools), switches, prompt in itertools.product(
            HISTORIES.items(), TOOLS.items(), SWITCHES, (False, True)):
        yield f"{history}, tools {tools_name}, {switches}, prompt {prompt}", {
            "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt, **switches}
