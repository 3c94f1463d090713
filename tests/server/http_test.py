"""HTTP as clients and attackers speak it: keep-alive, pieces, limits, leaving, shutting down."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import BINARY, CONTEXT, DEMO, FRANCE, FURTHER_OPTIONS, Server, events, post

CHAT = {"messages": [{"role": "user", "content": FRANCE}]}
ANSWER = "The capital of France is Paris."
LONG = {"messages": [{"role": "user", "content": "Tell me everything."}], "max_tokens": CONTEXT * 3 // 4, "ignore_eos": True}


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--access-log", "off", "--max-body-mib", 1)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() in (0, 75)

    def content_of(self, response):
        status, _, body = response
        self.assertEqual(status, 200, body)
        return json.loads(body)["choices"][0]["message"]["content"]

    def test_a_connection_is_kept_after_answers_errors_and_streams(self):
        with self.server.raw() as connection:
            for _ in range(2):
                connection.send(post("/v1/chat/completions", CHAT))
                self.assertEqual(self.content_of(connection.response()), ANSWER)
                connection.send(post("/v1/chat/completions", b"{"))
                self.assertEqual(connection.response()[0], 400)
                connection.send(post("/v1/chat/completions", {**CHAT, "stream": True}))
                status, headers, body = connection.response()
                self.assertEqual((status, headers["content-type"]), (200, "text/event-stream"))
                deltas = [event["choices"][0]["delta"].get("content", "") for event in events(body)]
                self.assertEqual("".join(deltas), ANSWER)

    def test_requests_may_come_in_any_pieces(self):
        data = post("/v1/chat/completions", CHAT)
        with self.server.raw() as connection:
            for at in range(0, len(data), 7):
                connection.send(data[at : at + 7])
                time.sleep(0.001)
            self.assertEqual(self.content_of(connection.response()), ANSWER)

    def test_pipelined_requests_are_all_answered_in_order(self):
        with self.server.raw() as connection:
            connection.send(post("/v1/chat/completions", CHAT) + b"GET /live HTTP/1.1\r\nHost: t\r\n\r\n"
                            + post("/tokenize", {"content": "Hello"}))
            self.assertEqual(self.content_of(connection.response()), ANSWER)
            self.assertEqual(json.loads(connection.response()[2]), {"status": "ok"})
            self.assertIn("tokens", json.loads(connection.response()[2]))

    def test_chunked_bodies_and_expectations(self):
        body = json.dumps(CHAT).encode()
        with self.server.raw() as connection:
            connection.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                            + b"%x\r\n%s\r\n" % (10, body[:10]) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 10, body[10:]))
            self.assertEqual(self.content_of(connection.response()), ANSWER)
            connection.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n")
            self.assertEqual(connection.response()[0], 100)
            connection.send(body)
            self.assertEqual(self.content_of(connection.response()), ANSWER)

    def test_http_1_0_gets_a_whole_stream_and_a_closed_connection(self):
        with self.server.raw() as connection:
            connection.send(post("/v1/chat/completions", {**CHAT, "stream": True}, version="1.0"))
            while connection.more():
                pass
            head, body = connection.received.split(b"\r\n\r\n", 1)
            self.assertNotIn(b"chunked", head)
            self.assertTrue(body.endswith(b"data: [DONE]\n\n"))

    def test_heads_options_and_wrong_methods(self):
        for path in ("/", "/v1/models", "/health"):
            whole = self.server.request("GET", path)
            head = self.server.request("HEAD", path)
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.headers["Content-Length"], str(len(whole.body)))
        preflight = self.server.request("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "http://page.example", "Access-Control-Request-Headers": "authorization, x-stainless-os"})
        self.assertEqual(preflight.status, 204)
        self.assertEqual(preflight.headers["Access-Control-Allow-Origin"], "*")
        self.assertIn("x-stainless-os", preflight.headers["Access-Control-Allow-Headers"])
        wrong = self.server.request("GET", "/v1/chat/completions")
        self.assertEqual((wrong.status, wrong.headers["Allow"]), (405, "POST"))
        missing = self.server.request("GET", "/v1/nothing", headers={"Origin": "http://page.example"})
        self.assertEqual((missing.status, missing.json()["error"]["code"]), (404, "not_found"))
        self.assertEqual(missing.headers["Access-Control-Allow-Origin"], "*")
        self.assertTrue(missing.headers["x-request-id"])

    def test_limits_are_answers(self):
        with self.server.raw() as connection:
            connection.send("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999\r\n\r\n")
            self.assertEqual(connection.response()[0], 413)
        with self.server.raw() as connection:
            connection.send("GET /live HTTP/1.1\r\nHost: t\r\nX-Long: " + "a" * 100000 + "\r\n\r\n")
            self.assertEqual(connection.response()[0], 431)
        for path, head in (("/v1/messages", ""), ("/v1/models", "anthropic-version: 2023-06-01\r\n")):
            with self.server.raw() as connection:
                connection.send(f"POST {path} HTTP/1.1\r\nHost: t\r\nOrigin: http://page.example\r\n{head}"
                                "Content-Length: 99999999\r\n\r\n")
                status, headers, body = connection.response()
                error = json.loads(body)
                self.assertEqual((status, error["type"], error["error"]["type"]), (413, "error", "request_too_large"))
                self.assertEqual(error["request_id"], headers["request-id"])
                self.assertEqual(headers["access-control-allow-origin"], "*")
        deep = b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}"
        self.assertEqual(self.server.request("POST", "/v1/chat/completions", deep).status, 400)

    def test_shapes_of_smuggling_are_refused_and_the_connection_closed(self):
        for head in ("Host: t\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", "Host: t\r\nContent-Length: 5\r\nContent-Length: 6",
                     "Content-Length: 2", "Host: t\r\nHost: u\r\nContent-Length: 2", "Host: t\r\nContent-Length: -1",
                     "Host: t\r\nTransfer-Encoding: gzip", "Host : t\r\nContent-Length: 2", "Host: t\r\nContent-Length: 0x2"):
            with self.server.raw() as connection:
                connection.send(f"POST /tokenize HTTP/1.1\r\n{head}\r\n\r\n")
                response = connection.response()
                if response is not None:
                    self.assertEqual(response[0], 400, head)
                    self.assertEqual(response[1]["connection"], "close")
                self.assertTrue(connection.is_closed(), head)
        self.assertEqual(self.server.request("GET", "/live").status, 200)

    def test_f134_a_client_that_leaves_frees_its_slot(self):
        for stream in (True, False):
            with self.server.raw() as connection:
                connection.send(post("/v1/chat/completions", {**LONG, "stream": stream}))
                self.server.wait_for(lambda: self.server.metric("gemmatrace_num_requests_running") == 1)
            self.server.wait_for(lambda: self.server.metric("gemmatrace_num_requests_running") == 0)

    def test_a_client_that_resets_or_half_closes_gets_no_empty_200(self):
        with self.server.raw() as connection:
            connection.send(post("/v1/chat/completions", CHAT))
            connection.socket.shutdown(socket.SHUT_WR)
            response = connection.response()
            if response is not None:
                self.assertEqual(self.content_of(response), ANSWER)
        self.assertEqual(self.server.chat().status, 200)

    def test_a_slow_header_does_not_hold_up_others(self):
        with self.server.raw() as slow:
            slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nX-Slow: ")
            self.assertEqual(self.server.chat().json()["choices"][0]["message"]["content"], ANSWER)


class KeyTest(unittest.TestCase):
    def test_keys_are_asked_for_where_they_should(self):
        with Server("--api-key", "first", "--api-key", "second", "--access-log", "off") as server:
            for path in ("/health", "/live", "/ping", "/metrics", "/"):
                self.assertEqual(server.request("GET", path).status, 200, path)
            refused = server.chat()
            self.assertEqual((refused.status, refused.json()["error"]["code"]), (401, "invalid_api_key"))
            for headers, status in (({"Authorization": "Bearer second"}, 200), ({"x-api-key": "first"}, 200),
                                    ({"Authorization": "Bearer secon"}, 401), ({"Authorization": "Bearer "}, 401),
                                    ({"Authorization": "Basic first"}, 401), ({"x-api-key": "firstfirst"}, 401)):
                self.assertEqual(server.request("GET", "/v1/models", headers=headers).status, status, headers)

    def test_f057_other_addresses_need_a_key(self):
        with self.assertRaisesRegex(AssertionError, "--api-key"):
            Server("--host", "0.0.0.0")


class SettingsTest(unittest.TestCase):
    @unittest.skipIf(FURTHER_OPTIONS, "the slots are the bundle's")
    def test_too_little_memory_for_snapshots_is_said_at_the_start(self):
        for mib, warns in ((1, True), (64, False)):
            with Server("--slots", 64, "--snapshot-mib", mib) as server:
                self.assertEqual("snapshots are less than one for each of 64 slots" in "".join(server.log), warns, f"{mib} MiB")

    def settings(self, *arguments, environment=None):
        return subprocess.run([BINARY, "serve", str(DEMO), "--print-config", *arguments], text=True, capture_output=True,
                              env={**os.environ, **(environment or {})})

    def test_the_command_line_goes_before_the_environment_and_that_before_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "settings.json"
            file.write_text(json.dumps({"port": 1, "slots": 2, "max-queue": 3, "api-key": ["secret"],
                                        "no-prefix-reuse": True}))
            done = self.settings("--config", str(file), "--port", "9", environment={"GEMMATRACE_SLOTS": "8"})
            shown = json.loads(done.stdout)
            self.assertEqual((shown["port"], shown["slots"], shown["max-queue"]), (9, 8, 3))
            self.assertTrue(shown["no-prefix-reuse"])
            self.assertNotIn("secret", done.stdout)

    def test_a_wrong_file_is_told_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "settings.json"
            for text, words in (('{"prt": 1}', "prt"), ('{"port": [1]}', "port"), ('{"port": true}', "port"), ("[", "line"),
                                ('{"no-prefix-reuse": 1}', "no-prefix-reuse")):
                file.write_text(text)
                done = self.settings("--config", str(file))
                self.assertIn(done.returncode, (2, 5), text)
                self.assertIn(words, done.stderr)


class QueueTest(unittest.TestCase):
    """A stream of several choices that meets a nearly full queue: its first choices had been queued and cancelled again,
    whose end opened the stream that no other choice ever ended."""

    @unittest.skipIf(FURTHER_OPTIONS, "the slots are the bundle's")
    def test_choices_are_refused_together_or_not_at_all(self):
        several = {**CHAT, "n": 3, "stream": True}
        prompts = {"prompt": ["One", "Two", "Three"], "stream": True, "max_tokens": 2}
        with Server("--access-log", "off", "--slots", 1, "--max-queue", 3) as server, server.raw() as running:
            running.send(post("/v1/chat/completions", {**LONG, "stream": True}))
            server.wait_for(lambda: server.metric("gemmatrace_num_requests_running") == 1)
            with server.raw() as waiting:
                waiting.send(post("/v1/chat/completions", CHAT))
                server.wait_for(lambda: server.metric("gemmatrace_num_requests_waiting") == 1)
                for turn in range(20):
                    for path, body in (("/v1/chat/completions", several), ("/v1/completions", prompts)):
                        answer = server.request("POST", path, body)
                        self.assertEqual(answer.status, 429, f"turn {turn}")
                        self.assertIn("retry-after", {name.lower() for name in answer.headers.keys()})
            answer = server.request("POST", "/v1/chat/completions", {**CHAT, "n": 5})
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "n"))
            running.socket.close()
            server.wait_for(lambda: server.metric("gemmatrace_num_requests_(running|waiting)") == 0)
            answer = server.request("POST", "/v1/completions", prompts)
            self.assertEqual(answer.status, 200)
            self.assertIn(b"data: [DONE]", answer.body)


class ShutdownTest(unittest.TestCase):
    def test_what_runs_is_finished_and_nothing_new_is_taken(self):
        server = Server("--access-log", "off")
        with server.raw() as running, server.raw() as late:
            running.send(post("/v1/chat/completions", {**LONG, "max_tokens": 400}))
            server.wait_for(lambda: server.metric("gemmatrace_num_requests_running") == 1)
            late.send("GET /live HTTP/1.1\r\nHost: t\r\n\r\n")
            self.assertEqual(late.response()[0], 200)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: any("finishing" in line for line in server.log))
            late.send(post("/v1/chat/completions", CHAT))
            status, headers, _ = late.response()
            self.assertEqual(status, 503)
            self.assertIn("retry-after", headers)
            status, _, body = running.response()
            self.assertEqual((status, json.loads(body)["usage"]["completion_tokens"]), (200, 400))
        self.assertEqual(server.stop(), 0)

    def test_a_deadline_and_a_second_signal_cut_and_say_so(self):
        for arguments, signals in ((("--drain-seconds", 1), 1), ((), 2)):
            server = Server("--access-log", "off", *arguments)
            with server.raw() as running:
                running.send(post("/v1/chat/completions", {**LONG, "stream": True}))
                server.wait_for(lambda: server.metric("gemmatrace_num_requests_running") == 1)
                server.process.send_signal(signal.SIGINT)
                if signals == 2:
                    server.wait_for(lambda: any("finishing" in line for line in server.log))
                    server.process.send_signal(signal.SIGINT)
                self.assertEqual(server.process.wait(timeout=60), 75)
                server.stop()


class LogTest(unittest.TestCase):
    def test_a_line_an_answer_with_figures_and_without_words(self):
        with Server() as server:
            server.chat("Hello secret words")
            server.wait_for(lambda: any('"finish_reason":"stop"' in line for line in server.log))
            line = json.loads(next(line for line in server.log if '"finish_reason":"stop"' in line))
            self.assertEqual((line["path"], line["status"]), ("/v1/chat/completions", 200))
            self.assertGreater(line["prompt_tokens"], 0)
            self.assertNotIn("secret", "".join(server.log))

    def test_a_full_disk_loses_lines_and_nothing_else(self):
        with Server("--access-log", "/dev/full") as server:
            self.assertEqual(server.chat().status, 200)
            self.assertEqual(server.chat().status, 200)


if __name__ == "__main__":
    unittest.main()
