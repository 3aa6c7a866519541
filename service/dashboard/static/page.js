// What the pages do by script: copy commands, say when the coordinator does not answer.
// Everything else is HTML, and readable without it.
"use strict";

document.documentElement.classList.add("scripted");

const COPIED_MS = 2000;

async function copy(text) {
  // Only pages of a safe origin have a clipboard: HTTPS, and loopback.
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) {
    throw new Error("the browser copies nothing here");
  }
}

function select(element) {
  getSelection().selectAllChildren(element);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) {
    return;
  }
  const command = document.getElementById(button.dataset.copies);
  try {
    await copy(command.textContent);
    button.textContent = "Copied";
  } catch {
    select(command);
    button.textContent = "Selected";
  }
  document.getElementById("said").textContent = `${button.textContent} the command`;
  setTimeout(() => {
    button.textContent = "Copy";
  }, COPIED_MS);
});

function showScripted(root) {
  for (const element of root.querySelectorAll("[data-scripted]")) {
    element.hidden = false;
  }
}

// Nothing is taken from under somebody's hands: what is opened or has the focus stays.
function isInUse(element) {
  return element.contains(document.activeElement) || element.querySelector("details[open]");
}

// A page that nobody sees asks for nothing.
document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt } = event.detail;
  if (document.hidden || (elt.id === "content" && isInUse(elt))) {
    event.preventDefault();
  }
});

document.addEventListener("htmx:afterRequest", (event) => {
  document.getElementById("unreachable").hidden = event.detail.successful;
});

document.addEventListener("htmx:load", (event) => showScripted(event.detail.elt));
showScripted(document);
