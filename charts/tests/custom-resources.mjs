// Prints what the schemas of the Prometheus operator and of KEDA have against the objects on standard input.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const models = `${process.env.OPERATOR_SCHEMAS}/node_modules/@kubernetes-models`;
const packages = { "monitoring.coreos.com": "prometheus-operator", "keda.sh": "keda" };

for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const [group] = object.apiVersion.split("/");
  const kinds = await import(pathToFileURL(`${models}/${packages[group]}/${object.apiVersion}/index.js`));
  try {
    new kinds[object.kind](object).validate();
  } catch (error) {
    console.log(`${object.kind} ${object.metadata.name}: ${error.message}`);
  }
}
