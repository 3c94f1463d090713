// Reads server-sent events from the body of a response.

// A server that sends no end of line must not fill the memory.
const kMaxEventCharacters = 16 << 20;

// Yields the data of each event of `body`, a ReadableStream of bytes in UTF-8. Comments and other fields are skipped;
// an event that the stream's end cuts off is not yielded. Throws what the stream throws, and a RangeError for an
// endless event.
export async function* read_events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let data = [];
    let size = 0;
    try {
        for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
            rest += value;
            size += value.length;
            if (size > kMaxEventCharacters) {
                throw new RangeError("the server sent an event without an end");
            }
            // A carriage return at the very end may be half of a line's end: it waits for the next piece.
            const held = rest.endsWith("\r") ? 1 : 0;
            const lines = rest.slice(0, rest.length - held).split(/\r\n|\n|\r/);
            rest = lines.pop() + (held ? "\r" : "");
            for (const line of lines) {
                if (line === "" && data.length > 0) {
                    yield data.join("\n");
                    data = [];
                    size = 0;
                } else if (line.startsWith("data:")) {
                    data.push(line.slice(line[5] === " " ? 6 : 5));
                }
            }
        }
    } finally {
        // Also reached when the consumer stops early: the connection must not stay open behind it.
        reader.cancel().catch(() => {});
    }
}
