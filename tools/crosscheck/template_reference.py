"""The reference renderer: jinja2 in the settings that Transformers 5.13 gives a chat template."""
import functools
import json
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class GenerationTag(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: renders its body, which Transformers can track."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(now=None):
    """now: a fixed datetime for strftime_now, or None for the clock."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: (now or datetime.now()).strftime(form)
    return environment


@functools.lru_cache(maxsize=4)
def compiled(environment, source):
    return environment.from_string(source)


def reference(environment, source, variables):
    """The rendered text, or the exception that rendering or compiling ends in."""
    try:
        return compiled(environment, source).render(**variables)
    except Exception as error:  # noqa: BLE001 - any failure of the reference is an answer here
        return error
