"""A tool server (MCP over standard input and output) with one tool, the weather of a city; agents name it get_weather.

Usage: weather_tool.py LOG    (each city that is asked for is a line of LOG)
"""

import json
import sys

TOOL = {
    "name": "weather",
    "description": "Gets the weather.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def result(method, params, log):
    if method == "initialize":
        server = {"name": "weather", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with open(log, "a", encoding="utf-8") as file:
            file.write(params["arguments"]["city"] + "\n")
        return {"content": [{"type": "text", "text": "sunny, 21 degrees"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = result(message["method"], message.get("params", {}), sys.argv[1])
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
