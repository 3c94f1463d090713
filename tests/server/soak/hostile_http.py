"""Hostile bytes on a connection: shapes that smuggle requests, broken framing, giant and nonsensical headers."""

from dataclasses import dataclass

ANSWERED = "answered"  # any answer but 5xx, or the end of the connection, in good time
REFUSED = "refused"  # one answer of 4xx, or the end of the connection; never 2xx, never a second answer
LEFT = "left"  # the request does not come to its end: the client leaves


@dataclass
class Case:
    name: str
    data: bytes
    expects: str = ANSWERED
    half_closes: bool = False  # the client ends its side behind the data


SMUGGLED = b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n"
BODY = b'{"content": "a b c"}'


def request(headers, body=BODY, line=b"POST /tokenize HTTP/1.1", host=b"Host: a", ending=b"\r\n"):
    """A request with just these headers: nothing is added but the host."""
    lines = [line, *([host] if host is not None else []), *headers, b"", b""]
    return ending.join(lines) + body


def closing(path, body, *headers, method=b"POST"):
    """A well-formed request behind which the server closes."""
    return request([b"Content-Length: %d" % len(body), b"Connection: close", *headers], body,
                   method + b" " + path + b" HTTP/1.1")


def chunked(*pieces):
    return request([b"Transfer-Encoding: chunked"], b"".join(pieces))


def framing(draw):
    """Two parsers would disagree on where such a request ends."""
    size = b"%d" % len(BODY)
    length = b"Content-Length: " + size
    te = b"Transfer-Encoding: chunked"
    lengths = [b"+" + size, b"-" + size, b"0x14", size + b", 5", b"1e1", size + b" 1", b"", b" ", b"\xb2\xb0",
               b"99999999999999999999999", b"18446744073709551616", b"9223372036854775808", b"20,20,20x", b"0 20"]
    codings = [b"identity", b"chunked, chunked", b"xchunked", b"chunked;q=1", b"gzip, chunked", b"chunked, gzip",
               b"chunked\x0b", b"\x0cchunked", b"'chunked'", b"chunk", b"chunked,identity"]
    sizes = [b"-1", b"0x14", b"+14", b"G", b"", b" 14", b"FFFFFFFFFFFFFFFFF", b"FFFFFFFFFFFFFFFF", b"1_4", b"14 ;"]
    return draw.choice([
        lambda: Case("length and coding", request([length, te], b"0\r\n\r\n" + SMUGGLED), REFUSED),
        lambda: Case("coding and length", request([te, length], b"0\r\n\r\n" + SMUGGLED), REFUSED),
        lambda: Case("two lengths", request([length, b"Content-Length: 3"], BODY + SMUGGLED), REFUSED),
        lambda: Case("no length", request([b"Content-Length: " + draw.choice(lengths)], BODY), REFUSED,
                     half_closes=True),
        lambda: Case("no coding", request([b"Transfer-Encoding: " + draw.choice(codings)],
                                          b"14\r\n" + BODY + b"\r\n0\r\n\r\n" + SMUGGLED), REFUSED, half_closes=True),
        lambda: Case("two codings", request([te, b"Transfer-Encoding: identity"],
                                            b"14\r\n" + BODY + b"\r\n0\r\n\r\n" + SMUGGLED), REFUSED),
        lambda: Case("no chunk size", chunked(draw.choice(sizes), b"\r\n", BODY, b"\r\n0\r\n\r\n"), REFUSED,
                     half_closes=True),
        lambda: Case("chunk without its end", chunked(b"14\r\n", BODY, b"XX0\r\n\r\n"), REFUSED, half_closes=True),
        lambda: Case("chunk ended by a bare LF", chunked(b"14\n", BODY, b"\n0\n\n"), REFUSED, half_closes=True),
        lambda: Case("giant chunk extension", chunked(b"14;" + b"x" * draw.randint(10, 100000) + b"\r\n", BODY,
                                                      b"\r\n0\r\n\r\n"), half_closes=True),
        lambda: Case("trailers", chunked(b"14\r\n", BODY, b"\r\n0\r\nContent-Length: 5\r\nHost: b\r\n\r\n"),
                     half_closes=True),
        lambda: Case("space before the colon", request([b"Content-Length : " + size], BODY), REFUSED),
        lambda: Case("space before a header", request([b" Content-Length: " + size], BODY), half_closes=True),
        lambda: Case("folded header", request([length, b"X-A: 1\r\n 2", b"Connection: close"], BODY)),
        lambda: Case("folded coding", request([b"Transfer-Encoding:\r\n chunked"], b"0\r\n\r\n"), half_closes=True),
        lambda: Case("bare LF", request([length], BODY, ending=b"\n"), REFUSED),
        lambda: Case("bare CR", request([b"X-A: 1\rX-B: 2", length], BODY), REFUSED),
        lambda: Case("NUL in a header", request([b"X-A: 1\x002", length], BODY), REFUSED),
        lambda: Case("NUL in a name", request([b"X\x00A: 1", length], BODY), REFUSED),
        lambda: Case("colon missing", request([b"Content-Length 20"], BODY), REFUSED),
        lambda: Case("name missing", request([b": 20"], BODY), REFUSED),
    ])()


def head(draw):
    """Request lines, hosts, versions and sizes that are out of order."""
    lines = [b"GET /live HTTP/3.0", b"GET /live HTTP/1.1 HTTP/1.1", b"GET  /live HTTP/1.1", b"get /live HTTP/1.1",
             b"GET /live", b"GET", b"", b"GET /live http/1.1", b"GET /live HTTP/1.1x", b"GET\t/live\tHTTP/1.1",
             b"G\xffT /live HTTP/1.1", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 40,
             b"A" * 5000, b"GET /l ive HTTP/1.1", b"GET /live HTTP/11.1", b"GET /live HTTP/-1.1"]
    targets = [b"*", b"a:443", b"http://a/live", b"http://", b"HTTP://a", b"//live", b"/%00", b"/%ff%fe", b"/%zz",
               b"/v1/models/%2e%2e%2f", b"/../../etc/passwd", b"/v1/models/" + b"\xc3\x28", b"/?" + b"a=b&" * 2000,
               b"/%0d%0aX-Injected:%201", b"/v1/models/" + b"A" * 30000, b"/live?x=\xff", b"/\xf0\x9f\x99\x82", b"/%",
               b"/v1/messages/%ff", b"/v1/models/a%00b", b"/metrics/../live"]
    methods = [b"TRACE", b"CONNECT", b"DELETE", b"PUT", b"PATCH", b"BREW", b"M-SEARCH", b"HEAD", b"OPTIONS", b"X" * 300]
    many = [b"X-%d: %d" % (at, at) for at in range(draw.choice([100, 3000, 20000]))]
    return draw.choice([
        lambda: Case("request line", request([], b"", draw.choice(lines)), half_closes=True),
        lambda: Case("target", request([b"Connection: close"], b"", b"GET " + draw.choice(targets) + b" HTTP/1.1")),
        lambda: Case("method", closing(draw.choice([b"/live", b"/tokenize", b"/v1/models/x"]), b"",
                                       method=draw.choice(methods))),
        lambda: Case("no host", request([b"Connection: close"], b"", b"GET /live HTTP/1.1", host=None), REFUSED),
        lambda: Case("two hosts", request([b"Host: b"], b"", b"GET /live HTTP/1.1"), REFUSED),
        lambda: Case("giant header", closing(b"/tokenize", BODY, b"X-A: " + b"a" * draw.choice([9000, 70000, 900000]))),
        lambda: Case("giant name", closing(b"/tokenize", BODY, b"a" * 70000 + b": 1"), REFUSED),
        lambda: Case("many headers", closing(b"/tokenize", BODY, *many)),
        lambda: Case("endless header", b"GET /live HTTP/1.1\r\nX: " + b"a" * 200000, REFUSED, half_closes=True),
        lambda: Case("bytes in headers", closing(b"/live", b"", b"X-A: " + draw.randbytes(30).translate(
            None, b"\r\n\x00"), method=b"GET"), half_closes=True),
        lambda: Case("expect", closing(b"/tokenize", BODY, b"Expect: " + draw.choice([b"100-continue", b"x", b""]))),
        lambda: Case("upgrade", closing(b"/live", b"", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk", method=b"GET")),
        lambda: Case("compressed", closing(b"/tokenize", draw.randbytes(40), b"Content-Encoding: gzip"), REFUSED),
        lambda: Case("cross origin", closing(b"/tokenize", BODY, b"Origin: \xff<script>",
                                             b"Access-Control-Request-Headers: \xffx", method=b"OPTIONS")),
        lambda: Case("key", closing(b"/tokenize", BODY, b"Authorization: " + draw.choice([b"", b"Bearer", b"\xff"]))),
        lambda: Case("pipeline", b"".join([request([], b"", b"GET /live HTTP/1.1")] * 40) +
                                  closing(b"/tokenize", BODY)),
        lambda: Case("old version", request([b"Content-Length: 20"], BODY, b"POST /tokenize HTTP/1.0",
                                            host=draw.choice([None, b"Host: a"]))),
    ])()


def noise(draw):
    """Bytes that were never meant as HTTP."""
    return Case("noise", draw.randbytes(draw.choice([1, 10, 300, 5000])), half_closes=True)


def truncated(draw, data):
    """A request of which only the beginning comes."""
    return Case("truncated", data[: draw.randrange(len(data))], LEFT, half_closes=draw.random() < 0.5)


def too_large(draw):
    """A body that is announced, and larger than any that is taken."""
    size = draw.choice([b"40000000", b"4294967296", b"9223372036854775807", b"18446744073709551615"])
    return Case("announced body", request([b"Content-Length: " + size], BODY), REFUSED, half_closes=True)
