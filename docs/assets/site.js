/* Names and focus that Material for MkDocs leaves out: the search dialog, copy buttons, and tables wider than the screen. */
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll(".md-search").forEach(function (one) { one.setAttribute("aria-label", "Search"); });
  document.querySelectorAll(".md-code__nav").forEach(function (one, place) { one.setAttribute("aria-label", "Code block " + (place + 1)); });
  // The members of an object in a table of contents: lists within one landmark.
  document.querySelectorAll("nav .md-nav[aria-label]:not([aria-labelledby])").forEach(function (one) {
    one.removeAttribute("aria-label");
    one.setAttribute("role", "none");
  });
});
window.addEventListener("load", function () {
  document.querySelectorAll(".md-typeset__scrollwrap, pre.output code, .md-typeset p:has(> img)").forEach(function (one) { one.tabIndex = 0; });
});
