// TeX in, HTML out: a JSON list of {tex, display} on standard input, a JSON list of strings on standard output.
import katex from "katex";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const set = ({ tex, display }) => katex.renderToString(tex, { displayMode: display, throwOnError: true, strict: "error" });
process.stdout.write(JSON.stringify(JSON.parse(text).map(set)));
