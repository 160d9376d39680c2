// A program with the types that openapi-typescript makes of the API's description; see tests/service/real/test_openapi.py.
import createClient from "openapi-fetch";

import type { components, paths } from "./fakedev";

// A refusal of the API; a text when the request was too long to be read.
type Refusal = components["schemas"]["Error"] | string;

const client = createClient<paths>({ baseUrl: process.argv[2] });

function codeOf(refusal: Refusal | undefined): string | undefined {
  return typeof refusal === "string" ? "too-long" : refusal?.error.code;
}

async function main(): Promise<void> {
  const started = await client.POST("/api/v1/workloads", {
    body: { name: "train", devices: "a/0", profile: "95:0:0" },
  });
  if (started.data === undefined) {
    throw new Error(codeOf(started.error));
  }
  const work: components["schemas"]["WorkloadState"] = started.data;

  const advanced = await client.POST("/api/v1/clock", { body: { advance: "1m" } });
  const tick: number | undefined = advanced.data?.tick;

  const listed = await client.GET("/api/v1/devices", { params: { query: { node: "a", sort: "-device", limit: 1 } } });
  const device: string | undefined = listed.data?.devices[0].device;
  const power: unknown = listed.data?.devices[0].quantities;

  const refused = await client.DELETE("/api/v1/workloads/{ID}", { params: { path: { ID: "none" } } });
  const code = codeOf(refused.error);

  console.log(JSON.stringify({ id: work.id, tick, device, hasPower: typeof power === "object", code }));
}

// What the compiler must refuse: a kind of fault that there is not, a query of another list, a missing field.
export const wrong = [
  // @ts-expect-error
  () => client.POST("/api/v1/faults", { body: { kind: "cold", devices: "a/0" } }),
  // @ts-expect-error
  () => client.GET("/api/v1/nodes", { params: { query: { node: "a" } } }),
  // @ts-expect-error
  () => client.POST("/api/v1/workloads", { body: { devices: "a/0" } }),
];

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
