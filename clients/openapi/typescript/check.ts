// Registers, lists and reads a job with types that were made from the server's OpenAPI description: `berth.d.ts` beside this
// file, by openapi-typescript. Usage: node check.js ADDRESS [TOKEN]

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./berth.js";

const [address, token] = process.argv.slice(2);
const headers: Record<string, string> = { Accept: "application/json" };
if (token) headers["X-Nomad-Token"] = token;
const berth = createClient<paths>({ baseUrl: address, headers });

const job: components["schemas"]["Job"] = {
  ID: "made-typescript",
  Name: "made-typescript",
  Type: "batch",
  TaskGroups: [{ Name: "g", Tasks: [{ Name: "t", Driver: "raw_exec", Config: { command: "/bin/true" } }] }],
};
const registered = await berth.PUT("/v1/jobs", { body: { Job: job } });
assert.ok(registered.data?.EvalID, JSON.stringify(registered.error));

const listed = await berth.GET("/v1/jobs");
assert.ok(listed.data?.some((stub) => stub.ID === job.ID));
const path = { id: "made-typescript" };
const read = await berth.GET("/v1/job/{id}", { params: { path } });
assert.equal(read.data?.TaskGroups?.[0]?.Tasks?.[0]?.Driver, "raw_exec");

const missing = await berth.GET("/v1/job/{id}", { params: { path: { id: "made-nothing" } } });
assert.equal(missing.response.status, 404);
const error: components["schemas"]["ErrorBody"] | string | undefined = missing.error;
assert.ok(typeof error === "object" && error.Status === 404, JSON.stringify(error));
await berth.DELETE("/v1/job/{id}", { params: { path, query: { purge: true } } });
