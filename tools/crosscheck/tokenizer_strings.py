"""Seeded strings for the tokenizer cross-check: ordinary text and everything that has broken tokenizers elsewhere."""

import random

PROSE = ("The quick brown fox jumps over the lazy dog. It's 5 o'clock; don't panic! Höfliche Grüße aus Köln, señor. "
         "Peter's mother asked: \"What is the capital of France?\" Paris (pop. 2,102,650) is. The name of Nora is Emma. "
         "En été, l'élève naïve préfère le cœur à l'œuvre. Zażółć gęślą jaźń. Què passa? Übermäßig schön.")
CODE = ['def main(argument: str) -> int:\n    for i in range(10):\n        print(f"{i}\\t{argument}")\n    return 0\n',
        'if (a<b && c>d) { x->y[i]++; } // comment\n\tfoo();\r\n', '<div class="a b">\n  <p>&nbsp;text</p>\n</div>\n',
        'SELECT * FROM "t" WHERE x = \'y\' LIMIT 10;', '{"name": "Zoe", "age": 31, "tags": [1, 2.5e-3, null]}',
        "\\begin{align} x_{1}^{2} &= \\frac{a}{b} \\\\ \\end{align}", "#!/bin/sh\nset -eu; echo \"$@\" | sed 's/a/b/g'\n",
        "0x1F 0b101 1_000_000 3.14159 1e-9 2026-07-04T12:00:00Z 192.168.0.1 +49 (0)221 12345"]
SCRIPTS = ["Привет, как дела? Съешь ещё этих мягких булок", "你好，世界。今天天气怎么样？", "こんにちは世界、ありがとう", "안녕하세요 세계",
           "مرحبا بالعالم كيف حالك", "שלום עולם", "नमस्ते दुनिया क्षत्रिय", "สวัสดีชาวโลก", "Γειά σου Κόσμε", "ສະບາຍດີ", "გამარჯობა",
           "Բարև աշխարհ", "𒀀𒁀𒂀", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ﬁﬂ ½ ² Å Ω", "ꙮ ᚠᛇᚻ", "Tiếng Việt rất đẹp"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "☃", "☃️", "🧑🏿‍🚀", "❤️‍🔥", "1️⃣", "\U0001F9FF", "\u200d", "\ufe0f"]
COMBINING = ["e\u0301", "a\u0308\u0304", "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324", "\u0301", "n\u0303o",
             "ก็", "\u1100\u1161\u11a8", "\u0344"]
EDGES = ["\u2581", "\u2581\u2581", " \u2581 ", "\x00", "\x00\x00a", "\x7f", "\x1b[0m", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\ud7ff",
         "\ue000", "\U0010ffff", "\U00010000", "\u0080", "\u07ff", "\u0800", "\r\n", "\r", "\t", "\n\r\n", "\u00a0", "\u2028", "\u2029", "\u3000",
         "\u200b", "\u202e", "<0x0A>", "<0xE2><0x82>", "<0x", "<unk>", "<s>", "[UNK]", "\x0b\x0c", "\u0085", "\u1680"]
WHITE = [" ", "\n", "\t", "\r\n", " ", "\n"]


class Strings:
    """Endless strings; `control` are the strings of a checkpoint's added tokens."""

    def __init__(self, seed, control):
        self.random = random.Random(seed)
        self.control = control or ["<bos>"]
        self.kinds = [self.prose, self.code, self.runs, self.indented, self.scripts, self.emoji, self.combining, self.unicode,
                      self.bytes_of_chance, self.glued_control, self.nested_control, self.edges, self.digits, self.long_word,
                      self.mixture, self.mixture]

    def __iter__(self):
        yield ""
        for run in range(1, 41):  # F059: runs of every length, alone and inside text
            for white in ("\n", " ", "\u2581", "\t", "\r\n"):
                yield white * run
                yield "a" + white * run + "b"
        yield from self.control + EDGES + EMOJI + COMBINING + SCRIPTS + CODE + [PROSE]
        while True:
            yield self.random.choice(self.kinds)()

    def prose(self):
        words = PROSE.split(" ")
        begin = self.random.randrange(len(words))
        return self.random.choice(["", " "]) + " ".join(words[begin:begin + self.random.randint(1, 12)])

    def code(self):
        text = self.random.choice(CODE)
        begin = self.random.randrange(len(text))
        return text[begin:begin + self.random.randint(1, 60)]

    def runs(self):
        return "".join(self.random.choice(WHITE) * self.random.randint(1, 40) + self.random.choice(["", "a", "The", "}", "é"])
                       for _ in range(self.random.randint(1, 5)))

    def indented(self):
        return "".join(" " * self.random.randint(0, 40) + self.random.choice(["x = 1", "<li>", "return", "- item", "|"])
                       + "\n" * self.random.randint(1, 4) for _ in range(self.random.randint(1, 6)))

    def scripts(self):
        return " ".join(self.random.choice(SCRIPTS)[:self.random.randint(1, 12)] for _ in range(self.random.randint(1, 4)))

    def emoji(self):
        return "".join(self.random.choice(EMOJI + [" ", "a"]) for _ in range(self.random.randint(1, 10)))

    def combining(self):
        return "".join(self.random.choice(COMBINING + ["e", " ", "n"]) for _ in range(self.random.randint(1, 10)))

    def unicode(self):
        top = self.random.choice([0x80, 0x250, 0x2600, 0x10000, 0x110000])
        codes = (self.random.randrange(top) for _ in range(self.random.randint(1, 24)))
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)

    def bytes_of_chance(self):
        return self.random.randbytes(self.random.randint(1, 24)).decode("utf-8", errors="replace")

    def glued_control(self):
        glue = ["", " ", "user", "\n", "a", "\u2581", "<", "|>", "é", "  \n", "\u3000"]
        return "".join(self.random.choice(self.random.choice([self.control, glue])) for _ in range(self.random.randint(1, 8)))

    def nested_control(self):
        outer, inner = self.random.choice(self.control), self.random.choice(self.control)
        cut = self.random.randint(0, len(outer))
        return outer[:cut] + inner + outer[cut:] + self.random.choice(["", outer[:cut], inner[1:]])

    def edges(self):
        return "".join(self.random.choice(EDGES + ["a", " ", "word"]) for _ in range(self.random.randint(1, 8)))

    def digits(self):
        return self.random.choice(["", " ", "-", "$", "1."]) + "".join(self.random.choice("0123456789  .,") for _ in range(
            self.random.randint(1, 30)))

    def long_word(self):
        letters = self.random.choice(["a", "ab", "etaoin shrdlu".replace(" ", ""), "аб", "中", "x_", "the"])
        return "".join(self.random.choice(letters) for _ in range(self.random.randint(30, 300)))

    def mixture(self):
        return "".join(self.random.choice(self.kinds[:-2])() for _ in range(self.random.randint(2, 5)))
