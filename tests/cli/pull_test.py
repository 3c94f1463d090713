"""`gemmatrace pull` against a hub of our own that drops connections, lies, refuses and stalls."""

import os
import random
import resource
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from fake_hub import COMMIT, Fault, Hub, git_hash, sha256
from support import BINARY, ROOT, TIMEOUT_S, Done, TestCase

TOKEN = "hf_secretsecretsecret"
WEIGHTS = random.Random(7).randbytes(600_000)
REPOSITORY = {
    "config.json": b'{"model_type":"gemma4"}',
    "tokenizer.json": b'{"version":"1.0"}',
    "model.safetensors": WEIGHTS,
    "README.md": b"not fetched",
    "model.gguf": b"not fetched",
}
FETCHED = {name: content for name, content in REPOSITORY.items() if not name.endswith((".md", ".gguf"))}


class PullTestCase(TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = Path(self.folder.name)
        self.hub = Hub({"org/model": dict(REPOSITORY)})
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.repository = self.home / "hub" / "models--org--model"
        self.snapshot = self.repository / "snapshots" / COMMIT
        self.incomplete = self.repository / "blobs" / (sha256(WEIGHTS) + ".incomplete")

    def environment(self, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        environment.update(HF_ENDPOINT=self.hub.endpoint, HF_HOME=str(self.home), NO_PROXY="*", **more)
        return environment

    def start(self, *arguments, environment=None, **options):
        return subprocess.Popen([BINARY, *map(str, arguments)], env=self.environment(**(environment or {})),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                cwd=self.home, **options)

    def finish(self, process):
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertNotIn(TOKEN.encode(), out + err)
        return Done(subprocess.CompletedProcess([], process.returncode, out, err))

    def run_program(self, *arguments, environment=None, **options):
        return self.finish(self.start(*arguments, environment=environment, **options))

    def pull(self, *arguments, repository="org/model", **options):
        return self.run_program("pull", repository, *arguments, **options)

    def assert_fails(self, done, status, *said):
        """As always, but remarks about what was tried again may come before the error."""
        remarks, error = done.err.rpartition("error: ")[::2]
        for remark in remarks.splitlines():
            self.assertRegex(remark, "trying again in|fetching it anew|another process")
        done.err = "error: " + error
        super().assert_fails(done, status, *said)

    def assert_pulled(self, done):
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.out, f"{self.snapshot}\n")
        self.assertEqual({file.name: file.read_bytes() for file in self.snapshot.iterdir()}, FETCHED)
        self.assertEqual(list((self.repository / "blobs").glob("*.incomplete")), [])

    def assert_nothing_published(self):
        self.assertFalse(self.snapshot.exists())
        self.assertFalse((self.repository / "refs").exists())

    def wait_until(self, condition):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not come to that")
            time.sleep(0.01)

    def partial_bytes(self):
        return self.incomplete.stat().st_size if self.incomplete.exists() else 0


class PullTest(PullTestCase):
    def test_a_repository_lies_in_the_cache_as_hugging_faces_libraries_lay_it_out(self):
        self.assert_pulled(self.pull())
        self.assertEqual((self.repository / "refs" / "main").read_text(), COMMIT)
        self.assertEqual(os.readlink(self.snapshot / "model.safetensors"), f"../../blobs/{sha256(WEIGHTS)}")
        before = len(self.hub.requests)
        again = self.pull()
        self.assert_pulled(again)
        self.assertIn("here already", again.err)
        self.assertEqual(len(self.hub.requests), before + 1)

    def test_the_token_goes_to_the_hub_and_nowhere_else(self):
        self.hub.token = TOKEN
        self.assert_pulled(self.pull(environment={"HF_TOKEN": TOKEN}))
        self.assertEqual({r.authorization for r in self.hub.asked("hub")}, {f"Bearer {TOKEN}"})
        self.assertEqual({r.authorization for r in self.hub.asked("store")}, {None})

    def test_another_port_of_the_same_host_is_another_host_for_the_token(self):
        self.hub.faults = [Fault("/resolve/", times=1,
                                 redirect=f"http://127.0.0.1:{self.hub.store.server_port}/org/model/config.json")]
        self.pull("--token", TOKEN, "--jobs", 1)
        self.assertEqual({r.authorization for r in self.hub.asked("store", "config.json")}, {None})

    def test_a_redirect_within_the_hub_keeps_the_token(self):
        self.hub.token = TOKEN
        self.hub.faults = [Fault("/api/models/org/old/", redirect="/api/models/org/model/revision/main?blobs=true"),
                           Fault("/org/old/resolve/", status=404)]
        done = self.pull("--dry-run", repository="org/old", environment={"HF_TOKEN": TOKEN})
        self.assertEqual(done.status, 0, done.err)

    def test_a_dry_run_and_json_say_what_is_here_and_what_is_not(self):
        done = self.pull("--dry-run")
        self.assertEqual(done.status, 0, done.err)
        self.assertRegex(done.out, r"model\.safetensors +600 kB  to fetch")
        self.assertFalse((self.home / "hub").exists())
        self.hub.faults = [Fault("signature", after=200_000)]
        self.pull("--retries", 0, "--jobs", 1)
        plan = self.pull("--dry-run", "--json").json()
        self.assertEqual(plan["commit"], COMMIT)
        states = {file["name"]: (file["state"], file.get("partial_bytes")) for file in plan["files"]}
        self.assertEqual(states["model.safetensors"], ("missing", 200_000))
        self.assertEqual(states["config.json"], ("present", None))
        left = sum(file["bytes"] - (file.get("partial_bytes") or 0) for file in plan["files"]
                   if file["state"] == "missing")
        self.assertLess(left, len(WEIGHTS) - 199_000)
        self.assertEqual(plan["bytes_to_fetch"], left)
        self.hub.faults = []
        result = self.pull("--json").json()
        self.assertEqual((result["path"], result["fetched_bytes"]), (str(self.snapshot), left))

    def test_a_local_folder_gets_plain_files(self):
        done = self.pull("--local-dir", "plain", "--revision", "v1")
        self.assertEqual((done.status, done.out), (0, "plain\n"), done.err)
        files = {file.name: file for file in (self.home / "plain").iterdir() if file.is_file()}
        self.assertEqual({name: file.read_bytes() for name, file in files.items()}, FETCHED)
        self.assertFalse(any(file.is_symlink() for file in files.values()))
        self.assertFalse((self.home / "hub").exists())

    def test_a_mirror_that_lists_only_names_is_asked_for_each_file(self):
        unsaid = {"size": None, "blobId": None, "lfs": None}
        self.hub.listing = {name: unsaid for name in REPOSITORY}
        self.hub.token = TOKEN
        self.assert_pulled(self.pull(environment={"HF_TOKEN": TOKEN}))
        self.assertEqual({r.authorization for r in self.hub.asked("store")}, {None})

    def test_offline_only_what_is_here_is_found(self):
        offline = {"HF_HUB_OFFLINE": "1"}
        self.assert_fails(self.pull(environment=offline), 3, "HF_HUB_OFFLINE")
        self.assert_pulled(self.pull())
        before = len(self.hub.requests)
        self.assert_pulled(self.pull(environment=offline))
        self.assertEqual(len(self.hub.requests), before)
        (self.snapshot / "model.safetensors").resolve().unlink()
        self.assert_fails(self.pull(environment=offline), 3)


class InterruptedPullTest(PullTestCase):
    def test_f049_lost_connections_are_continued(self):
        self.hub.faults = [Fault("signature", times=3, after=150_000)]
        self.assert_pulled(self.pull())
        ranges = [request.range for request in self.hub.asked("store")]
        self.assertEqual(ranges, [None, "bytes=150000-", "bytes=300000-", "bytes=450000-"])
        self.assertEqual(self.hub.body_bytes, len(WEIGHTS))

    def test_f049_a_killed_pull_is_continued_by_the_next(self):
        self.hub.faults = [Fault("signature", times=1, pause=0.05)]
        process = self.start("pull", "org/model")
        self.wait_until(lambda: self.partial_bytes() > 50_000)
        process.kill()
        self.finish(process)
        self.assert_nothing_published()
        kept = self.partial_bytes()
        self.assertLess(kept, len(WEIGHTS))
        self.assert_pulled(self.pull())
        self.assertEqual(self.hub.asked("store")[-1].range, f"bytes={kept}-")

    def test_ctrl_c_keeps_what_was_fetched(self):
        self.hub.faults = [Fault("signature", times=1, pause=0.05)]
        process = self.start("pull", "org/model")
        self.wait_until(lambda: self.partial_bytes() > 50_000)
        process.send_signal(signal.SIGINT)
        self.assert_fails(self.finish(process), 130, "interrupted", "kept", "continues")
        self.assertGreater(self.partial_bytes(), 50_000)
        self.assert_nothing_published()
        self.assert_pulled(self.pull())

    def test_two_pulls_at_once_share_the_work(self):
        self.hub.faults = [Fault("signature", times=1, pause=0.02)]
        first = self.start("pull", "org/model")
        self.wait_until(lambda: self.partial_bytes() > 0)
        second = self.start("pull", "org/model")
        self.assert_pulled(self.finish(first))
        done = self.finish(second)
        self.assert_pulled(done)
        self.assertIn("another process", done.err)
        self.assertEqual(self.hub.body_bytes, len(WEIGHTS))

    def test_a_hub_that_stalls_is_given_up(self):
        self.hub.faults = [Fault("signature", hangs=True)]
        done = self.pull("--retries", 0, environment={"HF_HUB_DOWNLOAD_TIMEOUT": "1"})
        self.assert_fails(done, 9, "nothing for too long")

    def test_f054_a_disk_that_is_full_ends_the_pull_and_keeps_the_part(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        self.assert_fails(self.pull(preexec_fn=limit), 7, "cannot write", "kept")
        self.assertEqual(self.partial_bytes(), 300_000)
        self.assert_pulled(self.pull())

    def test_f054_a_disk_too_small_is_named_before_the_first_byte(self):
        self.hub.listing = {"model.safetensors": {"lfs": {"sha256": sha256(WEIGHTS), "size": 60 * 10**12}}}
        self.assert_fails(self.pull(), 7, "needed: 60.0 TB", "available: ")
        self.assertEqual(self.hub.asked("store"), [])


class RefusedPullTest(PullTestCase):
    def test_every_class_of_error_has_its_status_and_says_what_to_do(self):
        gated = {"X-Error-Code": "GatedRepo"}
        entry = {"X-Error-Code": "EntryNotFound"}
        for where, status, headers, expected, said in (
                ("/api/", 401, {}, 3, "without a token"),
                ("/api/", 403, {}, 3, "HF_TOKEN"),
                ("/resolve/", 403, gated, 2, "accept the licence at " + self.hub.endpoint + "/org/model"),
                ("/resolve/", 404, entry, 3, "does not have it"),
                ("signature", 403, {}, 6, "storage refuses"),
                ("/api/", 429, {}, 6, "too many requests"),
                ("/api/", 429, {"Retry-After": "9999"}, 6, "retry_after: 2 h 46 min"),
                ("/api/", 500, {}, 6, "status 500"),
                ("signature", 503, {}, 6, "status 503"),
                ("/api/", 504, {}, 9, "too long"),
                ("/api/", 418, {}, 5, "status 418")):
            with self.subTest(where=where, status=status):
                self.hub.faults = [Fault(where, status=status, headers=headers)]
                self.assert_fails(self.pull("--retries", 0), expected, said)
                self.assert_nothing_published()

    def test_a_missing_repository_and_a_missing_revision_are_told_apart(self):
        self.assert_fails(self.pull(repository="org/none"), 3, "no repository 'org/none'")
        self.assert_fails(self.pull("--revision", "v2"), 3, "no revision 'v2'")
        self.hub.token = TOKEN
        self.assert_fails(self.pull(environment={"HF_TOKEN": TOKEN + "x"}), 2, "does not accept the access token")

    def test_what_may_pass_is_tried_again(self):
        self.hub.faults = [Fault("/api/", times=1, status=503),
                           Fault("/api/", times=1, status=429, headers={"Retry-After": "1"}),
                           Fault("config.json", times=1, status=500)]
        done = self.pull()
        self.assert_pulled(done)
        self.assertIn("trying again in", done.err)
        self.hub.faults = [Fault("/api/", status=500)]
        before = len(self.hub.requests)
        self.assert_fails(self.pull("--retries", 1), 6)
        self.assertEqual(len(self.hub.requests), before + 2)

    def test_a_hub_that_is_not_there_is_named(self):
        done = self.pull("--retries", 0, "--endpoint", "http://127.0.0.1:1")
        self.assert_fails(done, 6, "cannot be reached at http://127.0.0.1:1", "HF_ENDPOINT")

    def test_unsafe_redirects_are_not_followed(self):
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "/org/model/resolve/" + COMMIT + "/config.json"):
            with self.subTest(target):
                self.hub.faults = [Fault("/resolve/", redirect=target)]
                self.assert_fails(self.pull("--retries", 0), 6, "cannot be trusted")
                self.assert_nothing_published()


class LyingHubTest(PullTestCase):
    def test_f049_a_flipped_byte_is_fetched_anew_once(self):
        def flip(body):
            return body[:-1] + bytes([body[-1] ^ 1])
        self.hub.faults = [Fault("signature", times=1, change=flip)]
        done = self.pull()
        self.assert_pulled(done)
        self.assertIn("hash", done.err)
        for where, tag in (("signature", sha256(WEIGHTS)), ("tokenizer.json", git_hash(REPOSITORY["tokenizer.json"]))):
            with self.subTest(where):
                blob = self.repository / "blobs" / tag
                blob.unlink()
                self.hub.faults = [Fault(where, change=flip)]
                self.assert_fails(self.pull(), 5, "wrong twice", "hash")
                self.assertEqual(list(blob.parent.glob(tag + "*")), [])

    def test_lies_about_sizes_are_seen(self):
        for fault in (Fault("signature", change=lambda body: body + b"more"),
                      Fault("signature", change=lambda body: body[:1000])):
            self.hub.faults = [fault]
            self.assert_fails(self.pull(), 5, "wrong twice", "model.safetensors")
            self.assert_nothing_published()
        # Promised in full, then cut, then said to have ended.
        self.hub.faults = [Fault("signature", length=len(WEIGHTS), change=lambda body: body[:1000])]
        self.assert_fails(self.pull(), 5, "wrong twice", "shorter")

    def test_a_server_without_ranges_still_serves(self):
        self.hub.faults = [Fault("signature", times=1, after=150_000), Fault("signature", ignores_range=True)]
        self.assert_pulled(self.pull())
        self.assertEqual(self.hub.body_bytes, 150_000 + len(WEIGHTS))

    def test_names_that_would_leave_the_cache_are_refused(self):
        for name in ("../../evil.safetensors", "/tmp/evil.safetensors", "evil\n.safetensors"):
            self.hub.extra_names = [name]
            self.assert_fails(self.pull(), 5, "no repository can hold")
        self.assertEqual(list(self.home.rglob("*evil*")), [])
        self.hub.extra_names = []
        self.hub.listing = {"config.json": {"blobId": "../../../evil"}}
        self.assert_fails(self.pull(), 5, "names the content")

    def test_an_answer_that_is_no_listing_is_refused(self):
        self.hub.faults = [Fault("/api/", status=200)]
        self.assert_fails(self.pull(), 5, "JSON")


class NamedCheckpointTest(PullTestCase):
    """Commands that take a checkpoint take a pulled one by its name."""

    def setUp(self):
        super().setUp()
        source = ROOT / "models" / "31b"
        self.hub.repositories["org/small"] = {file.name: file.read_bytes() for file in source.iterdir()}
        self.source = source

    def test_a_name_that_was_not_pulled_says_how_much_there_is_to_fetch(self):
        done = self.run_program("generate", "org/small", "--prompt", "Hello")
        self.assert_fails(done, 3, "not pulled", "gemmatrace pull org/small", " MB in 9 files")
        done = self.run_program("generate", "org/small", "--prompt", "Hello", environment={"HF_HUB_OFFLINE": "1"})
        self.assert_fails(done, 3, "HF_HUB_OFFLINE")

    def test_with_pull_it_is_fetched_first_and_found_by_name_afterwards(self):
        arguments = ("--prompt", "Hello", "--max-tokens", "4", "--json", "--temperature", "0")
        done = self.run_program("generate", "org/small", "--pull", *arguments)
        self.assertEqual(done.status, 0, done.err)
        self.assertIn("fetching 3.90 MB in 9 files", done.err)
        expected = self.run_program("generate", self.source, *arguments).json()["token_ids"]
        self.assertEqual(done.json()["token_ids"], expected)
        before = len(self.hub.requests)
        again = self.run_program("generate", "org/small", *arguments)
        self.assertEqual(again.json()["token_ids"], expected)
        inspected = self.run_program("inspect", "org/small", "--json")
        self.assertEqual(inspected.status, 0, inspected.err)
        self.assertEqual(len(self.hub.requests), before)
        chat = self.run_program("chat", "org/small", "--once", "Hello", "--max-tokens", "1")
        self.assertEqual(chat.status, 0, chat.err)


if __name__ == "__main__":
    unittest.main()
