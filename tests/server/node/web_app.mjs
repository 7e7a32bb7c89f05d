// Packs the files of the page for npm, installs the package in an app beside React and Vue, checks
// the types of the app, and builds it with Vite. Arguments: a file that holds the sources of the
// app, the folder of the page's files, and a folder to work in. Prints the folder of the built app.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const { sources, files, folder } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const modules = join(import.meta.dirname, "node_modules");
const npm = join(dirname(process.execPath), "../lib/node_modules/npm/bin/npm-cli.js");
const path = [join(modules, ".bin"), dirname(process.execPath), process.env.PATH].join(":");
const run = (program, ...rest) =>
  execFileSync(process.execPath, [program, ...rest], {
    cwd: app, env: { ...process.env, PATH: path }, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"],
  });
let app = join(folder, "static");
cpSync(files, app, { recursive: true });
const [packed] = JSON.parse(run(npm, "pack", "--json", "--silent").replace(/^[^[]*/, ""));

const installed = join(folder, "app/node_modules");
mkdirSync(join(installed, "argstream"), { recursive: true });
for (const name of readdirSync(modules)) {
  if (!name.startsWith(".")) symlinkSync(join(modules, name), join(installed, name));
}
const archive = join(app, packed.filename);
execFileSync("tar", ["-xzf", archive, "--strip-components=1", "-C", join(installed, "argstream")]);
app = join(folder, "app");
for (const [name, text] of Object.entries(sources)) writeFileSync(join(app, name), text);

run(join(modules, "typescript/bin/tsc"), "--noEmit", "--strict", "--target", "ES2024",
  "--module", "ESNext", "--moduleResolution", "bundler", "--lib", "ESNext,DOM,DOM.Iterable",
  "--types", "", "types.ts");
run(join(modules, "vite/bin/vite.js"), "build", "--logLevel", "error", "--base", "./");
console.log(JSON.stringify({ built: join(app, "dist"), files: packed.files.map((file) => file.path) }));
