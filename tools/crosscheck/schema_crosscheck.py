"""Validates random constrained answers with Python's jsonschema, formats included.

Makes random schemas, lets `schema_walk` (tests/engine/constraint) answer each under its constraint, and checks that
every answer is JSON that the schema accepts; the same for tool calls with their arguments, and for patterns with
Python's re. Ends with status 1 and the first wrong answers when any is wrong, or when too few schemas were taken for
the check to mean anything."""

import argparse
import json
import re
import subprocess
import sys

import jsonschema

from schema_calls import CallReader
from schema_random import BARE_WORDS, PATTERNS, Schemas

SHOWN = 5  # wrong answers that are printed
FORMATS_CHECKED = {"date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "hostname", "email", "uri"}


def walk(program, checkpoint, seed, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([program, checkpoint, str(seed)], input=text.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    if len(answers) != len(lines):
        sys.exit(f"{len(lines)} lines in, {len(answers)} out")
    return answers


def reject_constant(name):
    raise ValueError(f"{name} is no JSON")


def fault_of_schema(schema, answer, checker):
    """What is wrong with an answer to a schema that has come to its end, or None."""
    try:
        value = json.loads(answer["text"], parse_constant=reject_constant)
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).split("\n")[0]
    return None


def fault_of_calls(tools, answer, checker):
    schemas = {tool["name"]: tool.get("parameters", {"maxProperties": 0}) for tool in tools}
    try:
        for name, arguments in CallReader(answer["text"]).calls():
            if name not in schemas:
                return f"a call of {name!r}, which is no function"
            jsonschema.Draft202012Validator(schemas[name], format_checker=checker).validate(arguments)
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).split("\n")[0]
    return None


def fault_of_pattern(pattern, answer):
    if not answer["has_ended"]:
        return "the answer does not end"
    return None if re.fullmatch(pattern, answer["text"]) else "Python's re does not match it"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walk", required=True, help="the schema_walk program")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    missing = FORMATS_CHECKED - set(checker.checkers)
    if missing:
        sys.exit(f"jsonschema cannot check the formats {sorted(missing)}: install jsonschema[format]")

    schemas = [Schemas(arguments.seed, number).schema() for number in range(arguments.schemas)]
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)
    answers = walk(arguments.walk, arguments.checkpoint, arguments.seed, [{"schema": schema} for schema in schemas])
    refused = [(schema, answer) for schema, answer in zip(schemas, answers, strict=True) if "error" in answer]
    faults = []
    unfinished = [answer for answer in answers if not answer.get("has_ended", True)]
    for schema, answer in zip(schemas, answers, strict=True):
        is_whole = answer.get("has_ended", False)
        fault = fault_of_schema(schema, answer, checker) if is_whole else None
        if fault:
            faults.append((schema, answer["text"], fault))
    print(f"schemas: {len(schemas)} made, {len(refused)} refused, {len(faults)} answers wrong")
    for schema, answer in refused[:SHOWN]:
        print(f"  refused: {answer['message']}\n    {json.dumps(schema)}")

    names = ["get_weather", "get", "run.code-2"]
    toolsets = [[Schemas(arguments.seed, f"{number} {name}", BARE_WORDS).tool(name) for name in names]
                for number in range(arguments.schemas // 2)]
    answers = walk(arguments.walk, arguments.checkpoint, arguments.seed, [{"tools": tools} for tools in toolsets])
    unfinished += [answer for answer in answers if not answer.get("has_ended", True)]
    for tools, answer in zip(toolsets, answers, strict=True):
        is_cut = not answer.get("has_ended", True)
        fault = answer["message"] if "error" in answer else None if is_cut else fault_of_calls(tools, answer, checker)
        if fault:
            faults.append((tools, answer.get("text"), fault))
    print(f"tool calls: {len(toolsets)} answers compared")

    patterns = [pattern for pattern in PATTERNS for _ in range(5)]
    answers = walk(arguments.walk, arguments.checkpoint, arguments.seed, [{"pattern": pattern} for pattern in patterns])
    for pattern, answer in zip(patterns, answers, strict=True):
        fault = answer["message"] if "error" in answer else fault_of_pattern(pattern, answer)
        if fault:
            faults.append((pattern, answer.get("text"), fault))
    print(f"patterns: {len(patterns)} answers compared")
    # An answer cut off is not checked, so there must be none to speak of.
    print(f"unfinished: {len(unfinished)}")
    for given, text, fault in faults[:SHOWN]:
        print(f"  wrong: {fault}\n    {json.dumps(given)}\n    {text!r:.500}")
    if faults or len(refused) > len(schemas) // 10 or len(unfinished) > (len(schemas) + len(toolsets)) // 100:
        sys.exit(1)


main()
