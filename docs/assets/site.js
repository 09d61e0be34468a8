/* Names and focus that Material for MkDocs leaves out: the search dialog, copy buttons, and tables wider than the screen. */
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll(".md-search").forEach(function (one) { one.setAttribute("aria-label", "Search"); });
  document.querySelectorAll(".md-code__nav").forEach(function (one, place) { one.setAttribute("aria-label", "Code block " + (place + 1)); });
  var seen = {};  // of a reference, two objects may have a member of one name
  document.querySelectorAll("nav.md-nav[aria-label]").forEach(function (one) {
    var label = one.getAttribute("aria-label");
    seen[label] = (seen[label] || 0) + 1;
    if (seen[label] > 1) { one.setAttribute("aria-label", label + " " + seen[label]); }
  });
});
window.addEventListener("load", function () {
  document.querySelectorAll(".md-typeset__scrollwrap, pre.output code").forEach(function (one) { one.tabIndex = 0; });
});
