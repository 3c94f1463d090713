"""`gemmatrace chat` from outside: in a terminal (a pseudo-terminal), through a pipe, and with --once."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import BINARY, DEMO, TIMEOUT_S, TestCase, generate, run

GREEDY = ("--temperature", "0")
QUESTION = "What is the capital of France?"


class Terminal:
    """The program on a pseudo-terminal, driven like a person does it."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        environment = dict(os.environ, TERM="xterm")
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen([BINARY, "chat", str(DEMO), *map(str, arguments)], stdin=slave, stdout=slave,
                                        stderr=slave, start_new_session=True, env=environment,
                                        preexec_fn=self._take_terminal)
        os.close(slave)
        self.seen = ""

    @staticmethod
    def _take_terminal():
        import fcntl
        import termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C typed here becomes SIGINT there

    def read_until(self, pattern):
        """All output up to and including the pattern."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = re.search(pattern, self.seen)
            if found:
                before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
                return before
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.process.kill()
                self.close()
                raise AssertionError(f"waited for {pattern!r}, saw {self.seen!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                self.close()
                raise AssertionError(f"ended before {pattern!r}, saw {self.seen!r}")
            self.seen += data.decode("utf-8", "replace")

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        status = self.process.wait(timeout=TIMEOUT_S)
        os.close(self.master)
        return status


PROMPT = r"(?:^|\n)(?:\x1b\[0m)?> $"  # after a dimmed remark the style is reset first


class OnceTest(TestCase):
    def test_only_the_answer_is_printed(self):
        expected = generate("--chat", QUESTION, "--max-tokens", 40, *GREEDY)["text"]
        done = run("chat", DEMO, "--once", QUESTION, *GREEDY)
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual(done.out.rstrip("\n"), expected.rstrip("\n"))

    def test_a_system_message_counts(self):
        expected = generate("--chat", QUESTION, "--system", "Answer in one word.", "--max-tokens", 40, *GREEDY)["text"]
        done = run("chat", DEMO, "--once", QUESTION, "--system", "Answer in one word.", *GREEDY)
        self.assertEqual(done.out.rstrip("\n"), expected.rstrip("\n"))


class PipeTest(TestCase):
    def test_each_line_is_a_message_and_history_is_kept(self):
        done = run("chat", DEMO, *GREEDY, stdin=f"My name is Emma.\n{QUESTION}\n/exit\nnever read\n")
        self.assertEqual(done.status, 0, done.err)
        first = generate("--chat", "My name is Emma.", "--max-tokens", 60, *GREEDY)["text"]
        history = [{"role": "user", "content": "My name is Emma."}, {"role": "assistant", "content": first},
                   {"role": "user", "content": QUESTION}]
        request = {"messages": history, "add_generation_prompt": True}
        ids = run("render", DEMO, "--json", stdin=json.dumps(request)).json()["ids"]
        second = generate("--ids", ",".join(map(str, ids)), "--max-tokens", 60, *GREEDY)["text"]
        self.assertEqual(done.out, f"{first}\n{second}\n".replace("\n\n", "\n"))
        self.assertNotIn("\x1b", done.out)

    def test_commands_work_and_their_faults_do_not_end_the_chat(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "talk.json"
            lines = [QUESTION, f"/save {saved}", f"/save {saved}", "/dance", "/think maybe", "/think on", "/info",
                     "/think off", "/system Be kind.", "/retry", "/clear", "/retry", "/help"]
            done = run("chat", DEMO, *GREEDY, stdin="\n".join(lines) + "\n")
            self.assertEqual(done.status, 2, done.err)  # the last fault's
            messages = json.loads(saved.read_text())["messages"]
            self.assertEqual([message["role"] for message in messages], ["user", "assistant"])
            self.assertEqual(messages[0]["content"], QUESTION)
        self.assertEqual(done.err.count("error: "), 4, done.err)  # the file is there; dance; maybe; nothing to retry
        self.assertIn("thinking on", done.out)
        self.assertIn("/system TEXT", done.out)

    def test_messages_of_several_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "talk.json"
            text = f'one \\\ntwo\n"""three\n\nfour"""\n/save {saved}\n'
            run("chat", DEMO, *GREEDY, "--max-tokens", 2, stdin=text)
            said = [message["content"] for message in json.loads(saved.read_text())["messages"]][::2]
        self.assertEqual(said, ["one \ntwo", "three\n\nfour"])

    def test_a_conversation_that_outgrows_its_context_says_so_and_goes_on(self):
        done = run("chat", DEMO, *GREEDY, "--context", 48, stdin="word " * 100 + "\nHi\n")
        self.assertEqual(done.status, 2, done.err)
        self.assertIn("48", done.err)
        self.assertIn("/clear", done.err)
        self.assertNotEqual(done.out, "")


class TerminalTest(TestCase):
    def test_a_conversation_answers_and_ctrl_d_leaves(self):
        terminal = Terminal(*GREEDY)
        terminal.read_until(PROMPT)
        terminal.type(QUESTION + "\n")
        shown = terminal.read_until(PROMPT)
        answer = generate("--chat", QUESTION, "--max-tokens", 60, *GREEDY)["text"]
        self.assertIn(answer.strip(), shown.replace("\r\n", "\n"))
        terminal.type("\x04")
        self.assertEqual(terminal.close(), 0)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        # a long answer, given slowly
        terminal = Terminal("--temperature", "5", "--top-k", "0", "--seed", "9", "--max-tokens", "100000",
                            "--isa", "scalar", "--threads", "1")
        terminal.read_until(PROMPT)
        terminal.type("Tell me everything.\n")
        terminal.read_until(r"\n.*\w{3}")
        terminal.type("\x03")
        terminal.read_until(r"\[stopped\]")
        terminal.read_until(PROMPT)
        terminal.type("/info\n")
        terminal.read_until("of context used")
        terminal.read_until(PROMPT)
        terminal.type("half a line\x03")
        terminal.read_until("Ctrl-C again")
        terminal.read_until(PROMPT)
        terminal.type("\x03")
        self.assertEqual(terminal.close(), 130)

    def test_thinking_is_dim_and_apart(self):
        terminal = Terminal(*GREEDY, "--think", "--max-tokens", "60")
        terminal.read_until(PROMPT)
        terminal.type(QUESTION + "\n")
        shown = terminal.read_until(PROMPT)
        self.assertIn("\x1b[2m", shown)
        self.assertNotIn("<|channel>", shown)
        terminal.type("/exit\n")
        self.assertEqual(terminal.close(), 0)

    def test_nothing_to_read_from_a_terminal_is_an_error_that_teaches(self):
        master, slave = pty.openpty()
        try:
            for command in ("generate", "tokenize", "detokenize", "render"):
                done = subprocess.run([BINARY, command, str(DEMO)], stdin=slave, capture_output=True, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b"remedy", done.stderr)
        finally:
            os.close(slave)
            os.close(master)

    def test_once_is_ended_by_ctrl_c_with_130(self):
        process = subprocess.Popen([BINARY, "chat", str(DEMO), "--once", "Tell me everything.", "--temperature", "5",
                                    "--top-k", "0", "--seed", "1", "--max-tokens", "100000"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        if process.returncode == 0:
            self.skipTest("the answer was shorter than the signal took")
        self.assertEqual(process.returncode, 130, err)


if __name__ == "__main__":
    unittest.main()
