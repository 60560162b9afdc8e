// The scheduler that is written in the page: its editor, and whether it schedules.

/** @type {{ name: string, text: string }[]} */
const ownExamples = JSON.parse(stored("data-policies"));
const ownText = byId("policy", HTMLTextAreaElement), ownLoaded = byId("loaded", HTMLInputElement), ownHome = byId("own", HTMLDetailsElement);

/** What a request has of it: its text if it schedules. @returns {{ policy?: string }} */
const ownPolicy = () => ownLoaded.checked ? { policy: ownText.value } : {};

/** Shows a policy, and lets it schedule; without a text the kernel does. @param {string} [text] */
function showOwn(text) {
  ownLoaded.checked = text !== undefined;
  ownHome.open = text !== undefined;
  if (text !== undefined) ownText.value = text;
}

/** The name of the class that is written. */
const ownName = () => [...ownText.value.matchAll(/^[ \t]*class\s+([\w$]+)/gm)].pop()?.[1] ?? "own scheduler";

/** The mistakes of the last run that a check does not find, and the texts that have them. @type {{ of: string, messages: Message[] }} */
let ownRaised = { of: "", messages: [] };

/** @param {string} text */
const ownKey = (text) => JSON.stringify([text, ownPolicy()]);

/** Keeps what a run said of the scheduler. @param {string} text @param {Message[]} messages */
function keepRaised(text, messages) {
  ownRaised = { of: ownKey(text), messages: messages.filter((message) => message.in === "policy") };
}

/** Mistakes with those of the last run, while the texts are the same. @param {string} text @param {Message[]} messages @returns {Message[]} */
function withRaised(text, messages) {
  const has = messages.some((message) => message.in === "policy");
  return ownRaised.of === ownKey(text) && !has ? [...messages, ...ownRaised.messages] : messages;
}

/** Adds the places of syntax errors: `importScripts` does not say them, a worker of that text does. @param {Message[]} messages @returns {Promise<Message[]>} */
async function placed(messages) {
  const wrong = messages.find((message) => message.in === "policy" && message.says.startsWith("SyntaxError") && !message.places?.length);
  if (!wrong) return messages;
  const file = fileOfPolicy(ownText.value, "undefined"), worker = new Worker(file);
  /** @type {{ line: number, column: number } | null} */
  const at = await new Promise((done) => {
    worker.onerror = (event) => {
      event.preventDefault();
      done({ line: event.lineno, column: event.colno });
    };
    setTimeout(() => done(null), 2000);
  });
  worker.terminate();
  URL.revokeObjectURL(file);
  return messages.map((message) => message === wrong && at ? { ...message, places: [{ ...at, length: 1, text: null }] } : message);
}

/** @param {() => Promise<void>} run @param {() => void} keep @param {() => void} check */
function beginOwn(run, keep, check) {
  const choice = byId("policies", HTMLSelectElement);
  choice.append(...ownExamples.map((one) => new Option(one.name)));
  choice.value = "vtime";
  const begin = () => { ownText.value = ownExamples.find((one) => one.name === choice.value)?.text ?? ""; };
  if (!ownText.value) begin();
  choice.addEventListener("change", () => {
    begin();
    if (ownLoaded.checked) run();
  });
  ownLoaded.addEventListener("change", () => run());
  ownText.addEventListener("input", check);
  ownText.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      ownLoaded.checked = true;
      run();
    }
  });
  byId("beside", HTMLButtonElement).addEventListener("click", async () => {
    ownLoaded.checked = false;
    await run();
    keep();
    ownLoaded.checked = true;
    await run();
  });
}
