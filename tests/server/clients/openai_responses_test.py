"""The official openai SDK on /v1/responses: answers, events, tools, formats, the store and errors as it reads them.

Needs the package openai (3 or newer); without it everything is skipped.
"""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import FRANCE, TIMEOUT_S, Server  # noqa: E402

try:
    import openai
    import pydantic
    from openai.types import responses
except ImportError:
    openai = None

KEY = "test-key"
PARIS = "The capital of France is Paris."
OSLO = "What is the weather in Oslo?"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Gets the current weather of a city.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
}
GROUP = {"type": "namespace", "name": "outside", "description": "", "tools": [WEATHER]}
THINKING = {"reasoning": {"effort": "low"}}


def output_of(response):
    """The output without what differs from run to run."""
    items = []
    for item in response.output:
        data = item.to_dict(mode="json")
        for name in ("id", "call_id", "parsed", "parsed_arguments"):
            data.pop(name, None)
        for part in data.get("content") or []:
            part.pop("parsed", None)
        items.append(data)
    return items


@unittest.skipUnless(openai, "needs the package openai")
class ResponsesTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", "4096", "--api-key", KEY)
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT_S)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def create(self, **members):
        return self.client.responses.create(**{"model": "demo", "input": FRANCE, **members})

    def events(self, **members):
        """The events of a stream, each valid by the published types, numbered without gaps."""
        adapter = pydantic.TypeAdapter(responses.ResponseStreamEvent)
        events = list(self.create(stream=True, **members))
        for number, event in enumerate(events):
            adapter.validate_python(event.to_dict(mode="json"))
            self.assertEqual(event.sequence_number, number)
        return events

    def streamed(self, **members):
        """The response that the SDK's stream helper puts together."""
        with self.client.responses.stream(**{"model": "demo", "input": FRANCE, **members}) as stream:
            return stream.get_final_response()

    def refused(self, error_class, param, code, **members):
        for stream in (False, True):
            with self.assertRaises(error_class) as caught:
                self.create(stream=stream, **members)
            self.assertEqual((caught.exception.param, caught.exception.code), (param, code))
            self.assertEqual(caught.exception.type, "invalid_request_error")
            self.assertTrue(caught.exception.request_id)

    def test_a_response_comes_whole(self):
        response = self.create(instructions="Be brief.", metadata={"k": "v"}, max_output_tokens=100, temperature=0)
        responses.Response.model_validate(response.to_dict(mode="json"))
        self.assertEqual(response.status, "completed")
        self.assertTrue(response.output_text)
        self.assertEqual((response.instructions, response.metadata, response.max_output_tokens),
                         ("Be brief.", {"k": "v"}, 100))
        self.assertEqual(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens)
        self.assertIsNone(response.error)
        self.assertTrue(response._request_id)
        self.assertEqual(self.create().output_text, PARIS)

    def test_a_stream_is_the_same_response(self):
        requests = [{}, THINKING, {"input": OSLO, "tools": [WEATHER]}, {"input": OSLO, "tools": [GROUP], **THINKING}]
        for members in requests:
            with self.subTest(members):
                whole = self.create(**members)
                self.assertEqual(output_of(self.streamed(**members)), output_of(whole))
                events = self.events(**members)
                self.assertEqual(output_of(events[-1].response), output_of(whole))
                done = [event.item for event in events if event.type == "response.output_item.done"]
                self.assertEqual([item.to_dict() for item in done],
                                 [item.to_dict() for item in events[-1].response.output])

    def test_reasoning_is_an_item_of_its_own(self):
        response = self.create(**THINKING)
        self.assertEqual([item.type for item in response.output], ["reasoning", "message"])
        self.assertTrue(response.output[0].content[0].text)
        self.assertGreater(response.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertEqual(response.output_text, PARIS)

    def test_a_cut_answer_is_incomplete(self):
        response = self.create(max_output_tokens=3)
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(response.usage.output_tokens, 3)
        self.assertEqual(self.events(max_output_tokens=3)[-1].type, "response.incomplete")

    def test_a_call_and_its_output_make_a_round_trip(self):
        for tool, namespace in ((WEATHER, None), (GROUP, "outside")):
            first = self.create(input=OSLO, tools=[tool, {"type": "web_search"}])
            call = first.output[-1]
            self.assertEqual((call.type, call.name, call.namespace), ("function_call", "get_weather", namespace))
            self.assertEqual(json.loads(call.arguments)["city"], "Oslo")
            result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"sky": "clear"}'}
            by_id = self.create(previous_response_id=first.id, input=[result], tools=[tool])
            history = [{"role": "user", "content": OSLO}, *first.output, result]
            by_items = self.create(input=history, tools=[tool], store=False)
            self.assertEqual(output_of(by_id), output_of(by_items))
            self.assertEqual(by_id.usage.input_tokens, by_items.usage.input_tokens)
            self.assertTrue(by_id.output_text)

    def test_several_calls_are_items_of_their_own(self):
        request = {"input": OSLO, "tools": [WEATHER], "tool_choice": "required", "max_output_tokens": 200,
                   "extra_body": {"min_tokens": 24}}
        whole = self.create(**request)
        self.assertGreater(len(whole.output), 1)
        self.assertEqual({item.type for item in whole.output}, {"function_call"})
        self.assertEqual(len({item.call_id for item in whole.output}), len(whole.output))
        self.assertEqual(output_of(self.streamed(**request)), output_of(whole))
        self.assertEqual(len(self.create(**request, parallel_tool_calls=False).output), 1)

    def test_an_abort_in_the_middle_frees_the_slot(self):
        stream = self.create(stream=True, max_output_tokens=3000, extra_body={"ignore_eos": True})
        for event in stream:
            if event.type == "response.output_text.delta":
                break
        stream.close()
        self.server.wait_for(lambda: self.server.metric("gemmatrace_num_requests_running") == 0)

    def test_a_forced_call_comes(self):
        for choice in ("required", {"type": "function", "name": "get_weather"},
                       {"type": "allowed_tools", "mode": "required",
                        "tools": [{"type": "function", "name": "get_weather"}]}):
            response = self.create(tools=[WEATHER], tool_choice=choice, max_output_tokens=100)
            self.assertEqual(response.output[-1].type, "function_call")
            self.assertIn("city", json.loads(response.output[-1].arguments))
        free = self.create(input=OSLO, tools=[WEATHER], tool_choice="none")
        self.assertNotIn("function_call", [item.type for item in free.output])

    def test_a_format_is_held(self):
        class Answer(pydantic.BaseModel):
            is_true: bool

        parsed = self.client.responses.parse(model="demo", input=FRANCE, text_format=Answer)
        self.assertIsInstance(parsed.output_parsed, Answer)
        with self.client.responses.stream(model="demo", input=FRANCE, text_format=Answer) as stream:
            self.assertEqual(stream.get_final_response().output_parsed, parsed.output_parsed)

    def test_logprobs_join_to_the_text(self):
        response = self.create(include=["message.output_text.logprobs"], top_logprobs=2)
        logprobs = response.output[-1].content[0].logprobs
        self.assertEqual("".join(entry.token for entry in logprobs), PARIS)
        self.assertEqual({len(entry.top_logprobs) for entry in logprobs}, {2})

    def test_a_conversation_goes_on_by_id_and_by_item(self):
        first = self.create()
        second = self.create(previous_response_id=first.id, input="What is the capital of Ghana?")
        self.assertEqual(second.previous_response_id, first.id)
        by_reference = self.create(input=[{"role": "user", "content": FRANCE},
                                          {"type": "item_reference", "id": first.output[0].id},
                                          {"role": "user", "content": "What is the capital of Ghana?"}])
        self.assertEqual(by_reference.usage.input_tokens, second.usage.input_tokens)
        self.assertEqual(by_reference.output_text, second.output_text)

    def test_the_input_of_a_response_is_listed_in_pages(self):
        first = self.create(input=[{"role": "user", "content": FRANCE}, {"role": "user", "content": "Please."}])
        second = self.create(previous_response_id=first.id, input="What is the capital of Ghana?")
        for limit in (1, 20):
            items = list(self.client.responses.input_items.list(second.id, order="asc", limit=limit))
            for item in items:
                pydantic.TypeAdapter(responses.ResponseItem).validate_python(item.to_dict(mode="json"))
            self.assertEqual([(item.role, item.content[0].text) for item in items],
                             [("user", FRANCE), ("user", "Please."), ("assistant", first.output_text),
                              ("user", "What is the capital of Ghana?")])
        newest_first = list(self.client.responses.input_items.list(second.id))
        self.assertEqual([item.id for item in newest_first], [item.id for item in reversed(items)])
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.input_items.list("resp_unknown")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.input_items.list(second.id, limit=1000)
        self.assertEqual(caught.exception.param, "limit")

    def test_responses_are_kept_until_deleted(self):
        response = self.create()
        self.assertEqual(self.client.responses.retrieve(response.id).to_dict(), response.to_dict())
        self.client.responses.delete(response.id)
        for gone in (response.id, self.create(store=False).id, "resp_unknown"):
            with self.assertRaises(openai.NotFoundError):
                self.client.responses.retrieve(gone)
            with self.assertRaises(openai.NotFoundError):
                self.client.responses.delete(gone)
            self.refused(openai.NotFoundError, "previous_response_id", "previous_response_not_found",
                         previous_response_id=gone)

    def test_errors_are_those_of_the_sdk(self):
        bad = openai.BadRequestError
        self.refused(openai.NotFoundError, "model", "model_not_found", model="other")
        self.refused(bad, "background", None, background=True)
        self.refused(bad, "truncation", None, truncation="auto")
        hosted = {"type": "web_search"}
        self.refused(bad, "tool_choice", "unsupported", tools=[hosted], tool_choice=hosted)
        image = {"type": "input_image", "image_url": "data:image/png;base64,AA"}
        self.refused(bad, "input[0].content[0].type", "unsupported", input=[{"role": "user", "content": [image]}])
        with self.assertRaises(bad) as caught:
            self.create(input="one " * 9000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0).responses.create(
                model="demo", input=FRANCE)


if __name__ == "__main__":
    unittest.main()
