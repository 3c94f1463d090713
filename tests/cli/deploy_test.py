"""What deploy/ holds: scripts that can be run without an instance, manifests, a unit, and the tables of docs/deploying.md."""

import functools
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

from support import BINARY, DEMO, ROOT, TIMEOUT_S, TestCase, run

try:
    import yaml
except ImportError:
    yaml = None

DEPLOY = ROOT / "deploy"
SCRIPTS = ("install.sh", "fetch_bundle.sh")


# How to run a program in mounts of its own, where that is allowed.
OWN_MOUNTS = ["unshare", "--map-root-user", "--mount"]
if not shutil.which("unshare") or subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode != 0:
    OWN_MOUNTS = []


def script(name, *arguments, environment=None):
    return subprocess.run([str(DEPLOY / name), *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**os.environ, **(environment or {})})


def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


@functools.cache
def serve_options():
    return long_options(run("serve", "--help").out)


def files_below(folder):
    """Every path below, with what a link points at, or the mode and content of a file."""
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else
            (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else None)
            for path in sorted(folder.rglob("*"))}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class DeployTestCase(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="with space ")
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)

    def make_bundle(self, name="e2b", content="{}"):
        bundle = self.home / name
        (bundle / "programs").mkdir(parents=True)
        (bundle / "manifest.json").write_text(content)
        (bundle / "compiled.json").write_text("{}")
        (bundle / "programs" / "decode.neff").write_bytes(b"neff")
        return bundle

    def make_archive(self, bundle, within=""):
        archive = self.home / (bundle.name + ".tar.gz")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(bundle, arcname=within or ".")
        return archive

    def stand_in(self, name, text):
        """A folder for PATH with a program in it."""
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n" + text)
        (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}


class FetchBundleTest(DeployTestCase):
    def fetch(self, *arguments, status=0, environment=None):
        done = script("fetch_bundle.sh", *arguments, self.link, environment=environment)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual([path.name for path in self.link.parent.glob(".bundle*")] if self.link.parent.exists() else [], [])
        return done

    def setUp(self):
        super().setUp()
        self.link = self.home / "state" / "bundle"

    def assert_serves(self, content="{}"):
        self.assertTrue(self.link.is_symlink())
        self.assertEqual((self.link / "manifest.json").read_text(), content)
        self.assertEqual((self.link / "programs" / "decode.neff").read_bytes(), b"neff")

    def test_a_folder_an_archive_and_a_second_time_give_the_same(self):
        bundle = self.make_bundle()
        self.fetch(bundle)
        self.assert_serves()
        before = files_below(self.link.parent)
        for archive in (self.make_archive(bundle), self.make_archive(bundle, within="e2b")):
            self.fetch("--sha256", hashlib.sha256(archive.read_bytes()).hexdigest(), archive)
            self.assertEqual(files_below(self.link.parent), before)

    def test_a_new_one_takes_the_place_and_the_old_one_stays(self):
        self.fetch(self.make_bundle())
        old = self.link.resolve()
        self.fetch(self.make_bundle("other", '{"a": 1}'))
        self.assert_serves('{"a": 1}')
        self.assertTrue((old / "manifest.json").exists())

    def test_over_http_and_from_s3(self):
        self.make_archive(self.make_bundle())
        handler = functools.partial(QuietHandler, directory=str(self.home))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            address = f"http://127.0.0.1:{server.server_port}"
            plain = {"no_proxy": "*", "NO_PROXY": "*"}
            try:
                self.fetch(f"{address}/e2b.tar.gz?signature=x.y", environment=plain)
                self.assert_serves()
                self.fetch(f"{address}/nothing.tar.gz", status=1, environment=plain)
            finally:
                server.shutdown()
                thread.join()
        self.assert_serves()
        self.make_bundle("other", '{"a": 1}')
        aws = self.stand_in("aws", f'echo "$*" >"{self.home}/asked"; for to; do :; done; cp -R "{self.home}/other/." "$to"\n')
        self.fetch("s3://bucket/folder/", environment=aws)
        self.assert_serves('{"a": 1}')
        self.assertRegex((self.home / "asked").read_text(), r"^s3 cp .*--recursive s3://bucket/folder/ /")

    def test_what_is_no_compiled_bundle_changes_nothing(self):
        bundle = self.make_bundle()
        self.fetch(bundle)
        before = files_below(self.link.parent)
        archive = self.make_archive(bundle)
        self.assertIn("hash", self.fetch("--sha256", "0" * 64, archive, status=1).stderr)
        archive.write_bytes(archive.read_bytes()[:100])
        self.assertIn("damaged", self.fetch(archive, status=1).stderr)
        emitted = self.make_bundle("emitted", "[]")
        (emitted / "compiled.json").unlink()
        self.assertIn("emitted", self.fetch(emitted, status=1).stderr)
        self.assertIn("manifest.json", self.fetch(self.home / "emitted" / "programs", status=1).stderr)
        self.fetch("--dry-run", emitted)
        self.assertEqual(files_below(self.link.parent), before)
        self.link.unlink()
        self.link.mkdir()
        self.assertIn("no link", self.fetch(bundle, status=1).stderr)


class InstallTest(DeployTestCase):
    def install(self, *arguments, status=0, environment=None):
        done = script("install.sh", *arguments, environment=environment)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_help_names_every_option_and_wrong_ones_are_refused(self):
        for name in SCRIPTS:
            done = script(name, "--help")
            self.assertEqual(done.returncode, 0)
            parsed = {option for words in re.findall(r"^ +((?:-[\w-]+ ?\|? ?)+)\)", (DEPLOY / name).read_text(), re.M)
                      for option in long_options(words)}
            self.assertGreater(len(parsed), 2)
            self.assertEqual(long_options(done.stdout) - long_options("--help"), parsed - {"--help"})
            self.assertEqual(script(name, "--no-such-option").returncode, 2)
            self.assertEqual(script(name).returncode, 2)
        for wrong in (["--port", "x"], ["--revision", "a b"], ["--host", "$(id)"], ["--port"], ["--bundle-sha256", "0"]):
            self.install("--checkpoint", "a/b", *wrong, status=2)
        self.install("--checkpoint", 'a/"b', status=2)

    def test_a_dry_run_says_all_and_does_nothing(self):
        broken = self.stand_in("aws", "exit 9\n")
        self.stand_in("systemctl", "exit 9\n")
        done = self.install("--checkpoint", "org/model", "--bundle", "s3://bucket/x.tar.gz", "--root", self.home / "root",
                            "--dry-run", environment=broken)
        for said in ("run --build-only", "pull org/model --revision main", "s3://bucket/x.tar.gz", '"device": "neuron"',
                     "gemmatrace.service", "neuron.conf"):
            self.assertIn(said, done.stdout)
        self.assertFalse((self.home / "root").exists())
        done = self.install("--checkpoint", "org/model", "--program", BINARY, "--dry-run", environment=broken)
        for said in ("would check: root", "systemctl enable gemmatrace", "http://127.0.0.1:8080/ready"):
            self.assertIn(said, done.stdout)
        self.assertNotIn("neuron", done.stdout)

    def test_a_root_is_filled_and_a_second_time_changes_nothing(self):
        root = self.home / "root"
        arguments = ["--checkpoint", DEMO, "--program", BINARY, "--root", root, "--bundle", self.make_bundle()]
        self.install(*arguments)
        before = files_below(root)
        self.install(*arguments)
        self.assertEqual(files_below(root), before)
        self.assertEqual(before["etc/gemmatrace.keys"][0], "0o100600")
        self.assertRegex(before["etc/gemmatrace.keys"][1], rb"^[0-9a-f]{64}$")
        self.assertEqual(before["usr/local/bin/gemmatrace"][0], "0o100755")
        self.assertEqual(Path(before["var/lib/gemmatrace/model"]), DEMO.resolve())
        self.assertTrue((root / "var/lib/gemmatrace/bundle/compiled.json").exists())
        # The program knows these settings; a CPU has no bundle.
        (root / "etc/gemmatrace.json").unlink()
        kept = (root / "etc/gemmatrace.keys").read_bytes()
        self.install(*arguments[:6], "--port", "9000", "--host", "::1")
        shown = run("serve", DEMO, "--config", root / "etc/gemmatrace.json", "--print-config").json()
        self.assertEqual((shown["host"], shown["port"], shown["model-name"], shown["device"]), ("::1", 9000, "demo", "cpu"))
        self.assertEqual((root / "etc/gemmatrace.keys").read_bytes(), kept)
        self.assertFalse((root / "etc/systemd/system/gemmatrace.service.d/neuron.conf").exists())
        # Settings are the operator's once they are there.
        (root / "etc/gemmatrace.json").write_text("{}")
        self.assertIn("kept", self.install(*arguments).stderr)
        self.assertEqual((root / "etc/gemmatrace.json").read_text(), "{}")

    def test_checkpoints_of_the_hub_lie_beside_each_other(self):
        fake = self.home / "gemmatrace"
        fake.write_text('#!/bin/sh\n[ "$1" = pull ] && mkdir -p "$6" && echo "$2 $4 $HF_TOKEN_PATH" >"$6/asked"\n')
        fake.chmod(0o755)
        token = self.home / "token"
        token.write_text("hf_secret")
        root = self.home / "root"
        for revision in ("one", "two"):
            done = self.install("--checkpoint", "org/model", "--revision", revision, "--program", fake, "--root", root,
                                "--hub-token-file", token)
            self.assertNotIn("hf_secret", done.stdout + done.stderr)
        state = root / "var/lib/gemmatrace"
        self.assertEqual((state / "model" / "asked").read_text(), f"org/model two {token}\n")
        self.assertTrue((state / "checkpoints" / "org--model@one" / "asked").exists())
        self.assertEqual(json.loads((root / "etc/gemmatrace.json").read_text())["model-name"], "org/model")

    @unittest.skipUnless(OWN_MOUNTS, "needs mounts of its own")
    def test_the_service_restarts_when_and_only_when_something_changed(self):
        for folder in ("etc", "local", "lib", "checkpoint"):
            (self.home / folder).mkdir()
        shutil.copy("/etc/passwd", self.home / "etc")
        (self.home / "checkpoint" / "config.json").write_text("{}")
        (self.home / "restarts").write_text("0")
        path = self.stand_in("systemctl", f"""
            case $* in
                *NRestarts*) cat '{self.home}/restarts' ;;
                *is-failed*) exit 1 ;;
                *) echo "$1" >>'{self.home}/log' ;;
            esac""")
        self.stand_in("journalctl", "echo the end of the log >&2")
        self.stand_in("curl", f"[ ! -e '{self.home}/down' ]")
        command = f"""set -eu
            cd '{self.home}'
            mount --bind etc /etc; mount --bind local /usr/local; mount --bind lib /var/lib
            mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system
            exec '{DEPLOY}/install.sh' --checkpoint checkpoint --program '{Path(BINARY).resolve()}'"""

        def install(status=0):
            (self.home / "log").unlink(missing_ok=True)
            done = subprocess.run([*OWN_MOUNTS, "sh", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env={**os.environ, **path})
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                self.assertIn("the end of the log", done.stderr)
            return (self.home / "log").read_text().split()

        again = ["daemon-reload", "enable", "start"]
        anew = ["daemon-reload", "enable", "restart"]
        self.assertEqual(install(), anew)
        self.assertEqual(install(), again)
        changes = (lambda: (self.home / "checkpoint" / "config.json").write_text("{ }"),
                   lambda: (self.home / "etc" / "gemmatrace.json").write_text("{}"),
                   lambda: (self.home / "etc" / "gemmatrace.env").write_text("NEURON_RT_LOG_LEVEL=INFO"),
                   lambda: (self.home / "etc" / "gemmatrace.keys").write_text("another"))
        for change in changes:
            change()
            # A start that fails does not count as one that took the change.
            (self.home / "down").touch()
            (self.home / "restarts").write_text("3")
            self.assertEqual(install(status=1), anew)
            (self.home / "down").unlink()
            self.assertEqual(install(), anew)
            self.assertEqual(install(), again)

    def test_what_is_installed_serves_with_the_units_command(self):
        root = self.home / "root"
        self.install("--checkpoint", DEMO, "--program", BINARY, "--root", root)
        key = (root / "etc/gemmatrace.keys").read_text()
        command = re.search(r"^ExecStart=(.*)$", (root / "etc/systemd/system/gemmatrace.service").read_text(), re.M)[1]
        words = [word.replace("${CREDENTIALS_DIRECTORY}/keys", f"{root}/etc/gemmatrace.keys") for word in command.split()]
        words = [str(root) + word if word.startswith(("/usr/", "/var/", "/etc/")) else word for word in words]
        with subprocess.Popen([*words, "--port", "0"], stderr=subprocess.PIPE) as serving:
            hang = threading.Timer(TIMEOUT_S, serving.kill)
            hang.start()
            try:
                port = None
                while port is None:
                    line = serving.stderr.readline()
                    self.assertTrue(line, "it ended without saying where it serves")
                    port = re.search(rb"base URL +http://0\.0\.0\.0:(\d+)/v1", line)
                for headers, status in (({}, 401), ({"Authorization": f"Bearer {key}"}, 200)):
                    connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=TIMEOUT_S)
                    connection.request("GET", "/v1/models/demo", headers=headers)
                    self.assertEqual(connection.getresponse().status, status)
                    connection.close()
            finally:
                serving.send_signal(signal.SIGTERM)
                serving.communicate()
                hang.cancel()
        self.assertEqual(serving.returncode, 0)

    def test_the_image_starts_as_docker_and_sagemaker_start_it(self):
        path = self.stand_in("gemmatrace", 'printf "%s " "$@"\n')
        model = "/model" if Path("/model").is_dir() else "/opt/ml/model"
        for given, started in (([], [model]), (["serve"], [model]), (["--slots", "2"], [model, "--slots", "2"]),
                               (["/data", "--slots", "2"], ["/data", "--slots", "2"])):
            done = script("container_start.sh", *given, environment=path)
            self.assertEqual(done.stdout.split(), ["serve", *started])


class ManifestTest(TestCase):
    def test_options_and_settings_exist(self):
        unit = (DEPLOY / "gemmatrace.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
        self.assertLessEqual(long_options(command), serve_options())
        for file in (DEPLOY / "Dockerfile", ROOT / "docs" / "deploying.md"):
            variables = re.findall(r"\bGEMMATRACE_([A-Z_]+)=", file.read_text())
            self.assertTrue(variables)
            for variable in variables:
                self.assertIn("--" + variable.lower().replace("_", "-"), serve_options())

    def test_sagemaker_can_do_without_a_key(self):
        done = subprocess.run([BINARY, "serve", str(DEMO), "--print-config"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, env={**os.environ, "GEMMATRACE_ALLOW_ANYONE": "true"})
        self.assertIs(json.loads(done.stdout)["allow-anyone"], True, done.stderr)

    def test_yaml_has_no_tabs_and_even_indentation(self):
        for name in ("kubernetes.yaml", "cloud-init.yaml"):
            for number, line in enumerate((DEPLOY / name).read_text().splitlines(), 1):
                self.assertNotIn("\t", line, f"{name}:{number}")
                self.assertEqual((len(line) - len(line.lstrip(" "))) % 2, 0, f"{name}:{number}")

    @unittest.skipIf(yaml is None, "needs PyYAML")
    def test_kubernetes_holds_what_the_docs_promise(self):
        parts = {part["kind"]: part for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
        settings = json.loads(parts["ConfigMap"]["data"]["gemmatrace.json"])
        self.assertLessEqual({"--" + name for name in settings}, serve_options())
        spec = parts["Deployment"]["spec"]
        self.assertEqual(spec["strategy"]["rollingUpdate"], {"maxSurge": 0, "maxUnavailable": 1})
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        self.assertEqual(container["resources"]["limits"]["aws.amazon.com/neuron"], 1)
        self.assertEqual([container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")],
                         ["/live", "/ready", "/live"])
        self.assertLessEqual(long_options(" ".join(container["args"])), serve_options())
        self.assertGreater(pod["terminationGracePeriodSeconds"], 5 + settings["drain-seconds"])
        self.assertTrue(all(one["securityContext"]["readOnlyRootFilesystem"]
                            for one in pod["initContainers"] + pod["containers"]))
        pull, fetch = pod["initContainers"]
        self.assertLessEqual(long_options(" ".join(pull["command"])), long_options(run("pull", "--help").out))
        self.assertEqual(fetch["command"][2], settings["bundle"])
        volumes = {volume["name"] for volume in pod["volumes"]}
        for one in pod["initContainers"] + pod["containers"]:
            self.assertLessEqual({mount["name"] for mount in one["volumeMounts"]}, volumes)
        self.assertEqual(spec["template"]["metadata"]["annotations"]["prometheus.io/path"], "/metrics")

    @unittest.skipIf(yaml is None, "needs PyYAML")
    def test_cloud_init_calls_the_installer_with_options_that_it_has(self):
        document = yaml.safe_load((DEPLOY / "cloud-init.yaml").read_text())
        files = {file["path"]: file["content"] for file in document["write_files"]}
        (command,) = document["runcmd"]
        text = files[command[0]]
        self.assertEqual(subprocess.run(["sh", "-n"], input=text, text=True).returncode, 0)
        used = long_options("\n".join(line for line in text.splitlines() if "set --" in line))
        self.assertEqual(used, {"--checkpoint", "--bundle", "--hub-token-file"})
        self.assertLessEqual(used, long_options(script("install.sh", "--help").stdout))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd")
    def test_systemd_understands_the_unit(self):
        with tempfile.TemporaryDirectory() as root:
            units = Path(root) / "etc" / "systemd" / "system"
            (units / "gemmatrace.service.d").mkdir(parents=True)
            shutil.copy(DEPLOY / "gemmatrace.service", units)
            drop_in = units / "gemmatrace.service.d" / "neuron.conf"
            for addition, complaint in (("", False), ("[Service]\nPrivateDevice=no\n", True)):
                drop_in.write_text((DEPLOY / "neuron.conf").read_text() + addition)
                done = subprocess.run(["systemd-analyze", "verify", f"--root={root}", "--man=no", "gemmatrace.service"],
                                      capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(bool(re.search("Unknown|Invalid|Failed to parse|ignoring", done.stderr)), complaint,
                                 done.stderr)

    def test_the_prices_of_tokens_follow_from_their_row(self):
        text = (ROOT / "docs" / "deploying.md").read_text()
        rows = re.findall(r"^\|[^|]+\| [\w.]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
        self.assertGreater(len(rows), 5)
        for dollars, speed, price in rows:
            self.assertEqual(price, f"{float(dollars) / (float(speed) * 3600) * 1e6:.2f}")


if __name__ == "__main__":
    unittest.main()
