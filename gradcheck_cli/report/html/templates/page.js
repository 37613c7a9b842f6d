"use strict";
(() => {
  const form = document.querySelector(".filters");
  if (!form) return;
  const field = (name) => form.querySelector("#" + name);
  const specs = [...document.querySelectorAll("article.spec")];
  const texts = specs.map((spec) => spec.textContent.toLowerCase());
  const chips = [...document.querySelectorAll(".chip")];
  const nothing = document.querySelector(".nothing");
  const holds = (words, wanted) => !wanted || words.split(" ").includes(wanted);

  const apply = () => {
    const [text, status, code, engine] = ["text", "status", "code", "engine"].map((n) => field(n).value);
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    specs.forEach((spec, place) => {
      const data = spec.dataset;
      const fits = (!status || data.status === status) && holds(data.codes, code)
        && holds(data.engines, engine) && words.every((word) => texts[place].includes(word));
      spec.hidden = !fits;
      shown += fits;
    });
    chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.code === code)));
    nothing.hidden = shown > 0;
    form.querySelector(".shown").textContent = `${shown} of ${specs.length} ${specs.length === 1 ? "spec" : "specs"}`;
  };
  const reset = () => { form.reset(); apply(); };
  const openAll = (open) => specs.forEach((spec) => {
    if (!spec.hidden) spec.querySelector("details").open = open;
  });

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  field("open").addEventListener("click", () => openAll(true));
  field("close").addEventListener("click", () => openAll(false));
  document.querySelector("#all").addEventListener("click", reset);
  chips.forEach((chip) => chip.addEventListener("click", () => {
    field("code").value = field("code").value === chip.dataset.code ? "" : chip.dataset.code;
    apply();
  }));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    field("text").focus();
  });
  const named = () => {
    const spec = document.getElementById(location.hash.slice(1));
    const details = spec && spec.querySelector("details");
    if (details) details.open = true;
  };
  addEventListener("hashchange", named);
  named();
  apply();
})();
