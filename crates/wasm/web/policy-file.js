// The text of a scheduler as a file of its own, so that no `eval` is needed, and a mistake has its line. The page and the worker make it.

/** What is before the text is in its first line. @param {string} text @param {string} name Of its class. */
function fileOfPolicy(text, name) {
  return URL.createObjectURL(new Blob([`self.zerolagPolicy = (() => { "use strict"; ${text}\n; return ${name}; })();`], { type: "text/javascript" }));
}
